package limiter_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

func TestRateIsReadAndWritten(t *testing.T) {
	for text, want := range map[string]limiter.Rate{
		"5/10": {QPS: 5, Burst: 10}, "0.5/1": {QPS: 0.5, Burst: 1}, "200/400": {QPS: 200, Burst: 400},
	} {
		var got limiter.Rate
		if err := got.Set(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "5", "5/", "/10", "0/10", "5/0", "-1/3", "x/y", "NaN/1", "5/10/15"} {
		var got limiter.Rate
		if got.Set(bad) == nil {
			t.Errorf("%q is accepted as %v", bad, got)
		}
	}
}

func TestRateChangesWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter.New(limiter.Rate{QPS: 5, Burst: 10})
		ctx := context.Background()
		take := func(n int) time.Duration {
			begin := time.Now()
			for range n {
				repotest.NoError(t, l.Wait(ctx))
			}
			return time.Since(begin)
		}
		if d := take(20); d < 1900*time.Millisecond || d > 2100*time.Millisecond {
			t.Errorf("20 calls at 5/10 took %v, want 2 s", d)
		}
		if !l.Change(limiter.Rate{QPS: 200, Burst: 400}) || l.Change(limiter.Rate{QPS: 200, Burst: 400}) {
			t.Error("a change is not told from none")
		}
		repotest.Equal(t, take(400), 0, "400 calls at 200/400 took")
		if l.QPS() != 200 {
			t.Errorf("QPS is %v", l.QPS())
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	l := limiter.New(limiter.Rate{QPS: 0.001, Burst: 1})
	l.Accept()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if l.Wait(ctx) == nil || l.TryAccept() {
		t.Error("a call passed an empty bucket")
	}
}

func TestRateIsChangedOverHTTP(t *testing.T) {
	l := limiter.New(limiter.Rate{QPS: 5, Burst: 10})
	ask := func(method, body string) (int, string) {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, httptest.NewRequest(method, "/limiter", strings.NewReader(body)))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for _, c := range []struct {
		method, body string
		code         int
		answer       string
	}{
		{http.MethodGet, "", http.StatusOK, "5/10"},
		{http.MethodPut, "200/400\n", http.StatusOK, "200/400"},
		{http.MethodPut, "fast", http.StatusBadRequest, ""},
		{http.MethodPut, strings.Repeat("9", 100), http.StatusBadRequest, ""},
		{http.MethodGet, "", http.StatusOK, "200/400"},
	} {
		if code, answer := ask(c.method, c.body); code != c.code || c.answer != "" && answer != c.answer {
			t.Errorf("%s %.10q: %d %q", c.method, c.body, code, answer)
		}
	}
}

// TestNamesHaveBuckets holds that names share a bucket in a limiter of New, and have each
// its own, of the rate in force, in one of NewNamed.
func TestNamesHaveBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, named := limiter.New(limiter.Rate{QPS: 10, Burst: 1}), limiter.NewNamed(limiter.Rate{QPS: 10, Burst: 1})
		round := func(l *limiter.Reloadable) time.Duration {
			begin := time.Now()
			for range 10 {
				for _, name := range []string{"a", "b"} {
					repotest.NoError(t, l.Of(name).Wait(context.Background()))
				}
				repotest.NoError(t, l.Wait(limiter.Named(context.Background(), "c")))
			}
			return time.Since(begin).Round(100 * time.Millisecond)
		}
		if one, each := round(shared), round(named); one != 2900*time.Millisecond || each != 900*time.Millisecond {
			t.Errorf("ten rounds of three names took %v with one bucket and %v with one each, want 2.9 and 0.9 s", one, each)
		}
		named.Change(limiter.Rate{QPS: 100, Burst: 1})
		repotest.Equal(t, round(named), 100*time.Millisecond, "after the change of the rate they took")
	})
}

// TestNamedTakesOfItsOwn holds that each way of taking a token takes one from the bucket of
// the name.
func TestNamedTakesOfItsOwn(t *testing.T) {
	l := limiter.NewNamed(limiter.Rate{QPS: 0.001, Burst: 3})
	pods := l.Of("pods")
	pods.Accept()
	if err := pods.Wait(t.Context()); err != nil || !pods.TryAccept() || pods.TryAccept() {
		t.Errorf("the bucket of pods has not three tokens (%v)", err)
	}
	if !l.TryAccept() || !l.Of("nodes").TryAccept() {
		t.Error("calls about pods took the tokens of others")
	}
}
