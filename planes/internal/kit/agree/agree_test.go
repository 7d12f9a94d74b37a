package agree_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
)

// TestCheck holds the answer by HTTP and in the log, and for how long a count is kept.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := []agree.Difference{{How: "missing", Kind: "pod", Object: "n/b", Where: []string{"edge-1"}}, {How: "extra", Object: "n/a"}}
		check := agree.New(clock.Start(), func() []agree.Difference { return found })
		time.Sleep(time.Second) // a clock starts at 0
		w := httptest.NewRecorder()
		check.ServeHTTP(w, nil)
		if want := `{"count":2,"first":[{"how":"extra","object":"n/a"},{"how":"missing","kind":"pod","object":"n/b","where":["edge-1"]}]}`; strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("the answer is %s, want %s", w.Body, want)
		}
		repotest.Equal(t, fmt.Sprint(found[1]), "edge-1 pod n/b missing", "a difference is written")
		repotest.Equal(t, check.Count(2*time.Second), 2, "differences")
		found = nil
		time.Sleep(2 * time.Second)
		if n := check.Count(2 * time.Second); n != 2 {
			t.Errorf("%d differences after 2 s, want the 2 of before", n)
		}
		time.Sleep(time.Millisecond)
		repotest.Equal(t, check.Count(2*time.Second), 0, "differences after more than 2 s")
		for i := range 1001 {
			found = append(found, agree.Difference{How: "missing", Object: fmt.Sprint(i)})
		}
		w = httptest.NewRecorder()
		check.ServeHTTP(w, nil)
		if got := strings.Count(w.Body.String(), "missing"); got != 1000 || !strings.HasPrefix(w.Body.String(), `{"count":1001,`) {
			t.Errorf("an answer names %d of 1001", got)
		}
		var log bytes.Buffer
		check.Log(slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.Count(log.String(), "\n"); got != 21 || !strings.Contains(log.String(), "objects=981") {
			t.Errorf("the log has %d lines:\n%s", got, log.String())
		}
	})
}
