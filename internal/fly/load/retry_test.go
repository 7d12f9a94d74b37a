package load_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// counter counts requests by path.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[path]++
	return c.n[path]
}

// Each attempt is a call of its own, due when the one before failed plus the
// delay, which doubles; a longer Retry-After wins.
func TestRetries(t *testing.T) {
	var seen counter
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		n := seen.add(r.URL.Path)
		switch {
		case r.URL.Path == "/x/0" && n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/x/1" && n < 4:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/x/2":
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/x/3":
			w.WriteHeader(http.StatusConflict)
		}
	}, load.Options{})
	const delay = 20 * time.Millisecond
	var mu sync.Mutex
	var told []string
	p := load.Plan{
		Ops: []record.Op{op("get")}, Count: 5, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 3, Delay: delay},
		Done: func(r load.Result) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%d.%d %v %v", r.Index, r.Attempt, r.Outcome, r.Last))
		},
	}
	repotest.NoError(t, b.Run(t.Context(), p))
	if n := b.Progress().Retries; n != 7 {
		t.Errorf("%d retries in progress, want 7", n)
	}
	slices.Sort(told)
	want := []string{
		"0.0 failed false", "0.1 ok true", "1.0 failed false", "1.1 failed false", "1.2 failed false", "1.3 ok true",
		"2.0 failed false", "2.1 failed false", "2.2 failed false", "2.3 failed true", "3.0 failed true", "4.0 ok true",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	calls := b.calls(t)
	byEnd := map[uint8][]clock.Time{} // of attempts: ends
	for _, c := range calls {
		byEnd[c.Attempt] = append(byEnd[c.Attempt], c.Done)
	}
	for _, c := range calls {
		if c.Attempt == 0 {
			continue
		}
		gap := delay << (c.Attempt - 1)
		if !slices.ContainsFunc(byEnd[c.Attempt-1], func(end clock.Time) bool {
			d := c.Due.Sub(end)
			return d == gap || d == time.Second && c.Attempt == 1
		}) {
			t.Errorf("attempt %d is due %v after nothing that ended", c.Attempt, gap)
		}
		if c.Sent < c.Due {
			t.Errorf("%+v left early", c)
		}
	}
	if got := b.told(t, record.EventLoadOffered); len(got) != 1 || got[0][:4] != "s: 5" {
		t.Errorf("offered %v: retries are not offered", got)
	}
}

// What failed for another reason is left, and no retry is due after time is up.
func TestRetriesAreBounded(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusConflict) }, load.Options{})
	p := load.Plan{Ops: []record.Op{op("get")}, Count: 2, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 100, Delay: time.Millisecond}}
	for _, tt := range []struct {
		codes []int
		limit time.Duration
		most  int
	}{{nil, 0, 2}, {[]int{409}, 20 * time.Millisecond, 10}} {
		before := b.Progress().Ended
		p.Retry.Codes, p.For = tt.codes, tt.limit
		repotest.NoError(t, b.Run(t.Context(), p))
		if n := b.Progress().Ended - before; n > tt.most || n < 2 {
			t.Errorf("codes %v: %d calls", tt.codes, n)
		}
	}
}

// A server that refuses everything fills no memory: when many calls wait for
// another try, the next ones keep their slots. None is lost.
func TestManyRetries(t *testing.T) {
	var seen counter
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if seen.add(r.URL.Path) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, load.Options{})
	const n = load.MaxWaiting + 1000
	p := load.Plan{Ops: []record.Op{op("get")}, Count: n, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 1, Delay: 2 * time.Second}}
	repotest.NoError(t, b.Run(t.Context(), p))
	if p := b.Progress(); p.OK != n || p.Failed != n {
		t.Errorf("%+v", p)
	}
}

// Interrupted, a plan does not wait for what it would send again.
func TestRetriesDoNotOutliveTheRun(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, load.Options{InFlight: 3})
	ctx, cancel := newTimeout(t, 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	p := load.Plan{Ops: []record.Op{op("get")}, Count: 50, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 3, Delay: time.Hour}}
	if err := b.Run(ctx, p); err == nil || time.Since(begin) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}

// Pages are read one after another, each a call that is due when the one before
// came; a page that fails is read again, with the same token.
func TestPages(t *testing.T) {
	var seen counter
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		token := r.URL.Query().Get("continue")
		if n := seen.add(token); token == "two&" && n == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next := map[string]string{"": "two&", "two&": "three", "three": ""}[token]
		if r.URL.Query().Get("limit") != "2" {
			t.Errorf("asked for %s", r.URL)
		}
		if token == "three" {
			_, _ = w.Write(encoded(t, configMaps(next)))
			return
		}
		fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[]}`, next)
	}, load.Options{})
	var ends []string
	repotest.NoError(t, b.Run(t.Context(), load.Plan{
		Ops: []record.Op{op("list")}, Count: 1, Pace: pace.Burst(), Retry: load.Retry{Times: 1, Delay: time.Millisecond},
		Build: func(i int, r *load.Request) (bool, error) {
			r.Method, r.Path, r.Pages = http.MethodGet, "/x?limit=2", true
			return true, nil
		},
		Done: func(r load.Result) { ends = append(ends, fmt.Sprint(r.Chain, r.Attempt, r.Outcome, r.Last)) },
	}))
	if want := []string{"0 0 ok false", "1 0 failed false", "1 1 ok false", "2 0 ok true"}; !slices.Equal(ends, want) {
		t.Errorf("ends %q, want %q", ends, want)
	}
	calls := b.calls(t)
	slices.SortFunc(calls, func(a, b record.Call) int { return cmp.Compare(a.Due, b.Due) })
	if len(calls) != 4 || calls[1].Due != calls[0].Done || calls[3].Due != calls[2].Done || calls[3].ReceivedBytes == 0 {
		t.Errorf("calls %+v", calls)
	}
}

// TestPagesWithoutEnd: a list whose pages lead to themselves ends its call with an
// error, and the step.
func TestPagesWithoutEnd(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"metadata":{"continue":"again"},"items":[]}`)
	}, load.Options{})
	err := b.Run(t.Context(), load.Plan{
		Ops: []record.Op{op("list")}, Count: 2, Pace: pace.Burst(),
		Build: func(_ int, r *load.Request) (bool, error) {
			r.Method, r.Path, r.Pages = http.MethodGet, "/x?limit=2", true
			return true, nil
		},
	})
	if err == nil || !strings.Contains(err.Error(), "the list does not end: page 2 of /x?limit=2 is not the last") {
		t.Errorf("err = %v", err)
	}
	if calls := b.calls(t); len(calls) != 6 { // two pages of each, and their ends
		t.Errorf("%d calls", len(calls))
	}
}
