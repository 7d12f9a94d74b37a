package load_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func newTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// events answers a watch as an API server does: the header at once, then lines.
func events(open, closed *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			return
		}
		open.Add(1)
		defer closed.Add(1)
		if r.URL.Path == "/x/3" {
			http.Error(w, "too many", http.StatusTooManyRequests)
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
		fmt.Fprint(w, `{"type":"ADDED","object":{}}`+"\n")
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
		fmt.Fprint(w, `{"type":"BOOKMARK","object":{}}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func watch(hold time.Duration, more string) func(int, *load.Request) (bool, error) {
	return func(i int, r *load.Request) (bool, error) {
		r.Method, r.Path, r.Hold = http.MethodGet, fmt.Sprintf("/x/%d?watch=1%s", i, more), hold
		return true, nil
	}
}

// A watch's call is its opening. Then it is held, apart from the slots of other
// calls, its events are counted, and it is closed.
func TestHeldWatches(t *testing.T) {
	var open, closed atomic.Int64
	b := newBench(t, events(&open, &closed), load.Options{Connections: 1, InFlight: 2})
	var mu sync.Mutex
	ends := map[string]int{}
	run := func(more string) {
		repotest.NoError(t, b.Run(t.Context(), load.Plan{
			Ops: []record.Op{op("watch")}, Count: 20, Pace: pace.Constant(1000), Build: watch(300*time.Millisecond, more),
			Done: func(r load.Result) {
				mu.Lock()
				defer mu.Unlock()
				long := r.Held > 0 && r.Held < 10*time.Second
				ends[fmt.Sprint(r.Outcome, r.Response.Code, r.Events, r.Bytes > 0, long, r.Last)]++
			},
		}))
	}
	run("")
	run("&sendInitialEvents=true")
	if len(ends) != 2 || ends["ok 200 1 true true true"] != 38 || ends["failed 429 0 false false true"] != 2 {
		t.Errorf("ends %v", ends)
	}
	if p := b.Progress(); p.OK != 38 || p.Failed != 2 {
		t.Errorf("%+v", p)
	}
	quick, slow := 0, 0
	for _, c := range b.calls(t) {
		if c.Outcome == record.OK && c.Service() < 18*time.Millisecond {
			quick++
		} else if c.Outcome == record.OK {
			slow++
		}
	}
	// The second lot is open with its first bookmark, after 20 ms.
	if slow < 19 || quick > 19 {
		t.Errorf("%d opened with the header, %d with the bookmark", quick, slow)
	}
	repotest.Eventually(t, "the server sees 40 watches closed", func() bool { return closed.Load() == 40 })
	if open.Load() != 40 {
		t.Errorf("the server saw %d opened", open.Load())
	}
	counts := map[string]float64{}
	_, err := record.Read(b.path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) { counts[s.Series[v.Series].Name] = v.Value }}
	})
	if err != nil || counts["windtunnel_load_watches_open"] != 0 || counts["windtunnel_load_watches_opened_total"] != 19 || counts["windtunnel_load_watch_events_total"] != 19 {
		t.Errorf("samples %v, %v", counts, err)
	}
}

// More watches than one connection carries, and an end before their time.
func TestWatchesEndWithTheRun(t *testing.T) {
	var open, closed atomic.Int64
	b := newBench(t, events(&open, &closed), load.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		repotest.Eventually(t, "599 watches are open", func() bool { return b.Progress().OK == 599 })
	}()
	err := b.Run(ctx, load.Plan{Ops: []record.Op{op("watch")}, Count: 600, Pace: pace.Burst(), Build: watch(time.Hour, "&n=1")})
	if !errors.Is(err, context.Canceled) { // the watches themselves would be held for an hour
		t.Error(err)
	}
	if p := b.Progress(); p.OK != 599 || p.Failed != 1 {
		t.Errorf("%+v", p)
	}
}

// What breaks a watch is told, and is no failed call: it had been opened.
func TestBrokenWatch(t *testing.T) {
	var b *bench
	b = newBench(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		repotest.Eventually(t, "the watch is open", func() bool { return b.Progress().OK == 1 })
		panic(http.ErrAbortHandler)
	}, load.Options{})
	var outcome atomic.Int64
	err := b.Run(t.Context(), load.Plan{
		Ops: []record.Op{op("watch")}, Count: 1, Pace: pace.Burst(), Build: watch(time.Hour, ""),
		Done: func(r load.Result) { outcome.Store(int64(r.Outcome)) },
	})
	if err != nil || record.Outcome(outcome.Load()) != record.Unknown {
		t.Errorf("%v, told %v", err, record.Outcome(outcome.Load()))
	}
	if calls := b.calls(t); len(calls) != 1 || calls[0].Outcome != record.OK {
		t.Errorf("calls %+v", calls)
	}
}
