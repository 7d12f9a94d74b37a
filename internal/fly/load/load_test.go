package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// even is a pace of one call every gap.
type even time.Duration

func (e even) Due(i int) time.Duration { return time.Duration(i) * time.Duration(e) }
func (e even) Rate() float64           { return float64(time.Second) / float64(e) }

// bench is a generator against a handler, and the records that it leaves.
type bench struct {
	*load.Generator
	path    string
	records *record.Writer
	clock   clock.Clock
}

func newBench(t *testing.T, h http.HandlerFunc, o load.Options) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "r.wt")}
	var err error
	if b.records, err = record.Create(b.path); err != nil {
		t.Fatal(err)
	}
	o.Endpoint, o.Records, o.Clock = apitest.Serve(t, h), b.records, clock.Start()
	if b.Generator, err = load.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Generator.Close() })
	return b
}

// calls closes the records and reads the calls back.
func (b *bench) calls(t *testing.T) []record.Call {
	t.Helper()
	repotest.NoError(t, b.records.Close())
	var calls []record.Call
	repotest.Must(record.Read(b.path, func(*record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) { calls = append(calls, c) }}
	}))(t)
	return calls
}

func post(i int, req *load.Request) (bool, error) {
	req.Method, req.Path, req.ContentType = http.MethodPost, "/x", "text/plain"
	req.Body = fmt.Appendf(req.Body, "object %d", i)
	return true, nil
}

func plan(n int, gap time.Duration) load.Plan {
	return load.Plan{Ops: []record.Op{{Source: load.Source, Step: "s", Verb: "create", Resource: "pods"}}, Count: n, Pace: even(gap), Build: post}
}

func TestCallsLeaveWhenTheyAreDue(t *testing.T) {
	var bodies sync.Map
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies.Store(string(raw), true)
		w.WriteHeader(http.StatusCreated)
	}, load.Options{})
	repotest.NoError(t, b.Run(t.Context(), plan(200, 2*time.Millisecond)))
	calls := b.calls(t)
	if len(calls) != 200 {
		t.Fatalf("%d calls recorded, want 200", len(calls))
	}
	for i := range 200 {
		if _, ok := bodies.Load(fmt.Sprintf("object %d", i)); !ok {
			t.Errorf("object %d did not arrive", i)
		}
	}
	dues := map[clock.Time]bool{}
	for _, c := range calls {
		dues[c.Due] = true
		if c.Outcome != record.OK || c.Code != 201 || c.Sent < c.Due || c.Done < c.Sent || c.SentBytes == 0 {
			t.Fatalf("call = %+v", c)
		}
	}
	if len(dues) != 200 {
		t.Errorf("%d different due times, want 200", len(dues))
	}
	if p := b.Progress(); p.OK != 200 || p.Ended != 200 || p.P99 <= 0 {
		t.Errorf("progress = %+v", p)
	}
}

// A server that stalls for 400 ms must show as latency of every call that fell
// due meanwhile, also of those that could not even be sent (rule 1).
func TestAStallCountsFromDue(t *testing.T) {
	const stall, gap, n = 400 * time.Millisecond, 2 * time.Millisecond, 300
	var gate sync.RWMutex
	var asked atomic.Int64
	b := newBench(t, func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == n/6 {
			gate.Lock()
			defer gate.Unlock()
			time.Sleep(stall)
			return
		}
		gate.RLock()
		defer gate.RUnlock()
	}, load.Options{Connections: 1, InFlight: 20})
	watch := clock.Start()
	repotest.NoError(t, b.Run(t.Context(), plan(n, gap)))
	took := watch.Now().Sub(0)
	slow, late, longest := 0, 0, time.Duration(0)
	calls := b.calls(t)
	for _, c := range calls {
		if c.Latency() > stall/2 {
			slow++
		}
		if c.Lateness() > record.Late {
			late++
		}
		longest = max(longest, c.Latency())
	}
	if len(calls) != n {
		t.Errorf("%d of %d calls were recorded", len(calls), n)
	}
	// Half of the calls that fell due in the stall waited for more than half of it.
	if want := int(stall/gap) / 2; slow < want*8/10 {
		t.Errorf("%d calls are slow, want about %d", slow, want)
	}
	if longest < stall || longest > took {
		t.Errorf("the longest took %v, want %v to %v, which all took", longest, stall, took)
	}
	if late == 0 || b.Progress().Late != late {
		t.Errorf("%d calls left late, progress says %d", late, b.Progress().Late)
	}
}

func TestOutcomes(t *testing.T) {
	var n atomic.Int64
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			<-r.Context().Done() // a timeout at the client
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}, load.Options{})
	p := plan(40, time.Millisecond)
	p.Build = func(i int, req *load.Request) (bool, error) {
		req.Timeout = 300 * time.Millisecond
		if i == 7 {
			return false, errors.New("no body 7")
		}
		if i == 8 {
			return false, nil // skipped
		}
		return post(i, req)
	}
	var told [3]atomic.Int64
	p.Done = func(r load.Result) { told[r.Outcome].Add(1) }
	err := b.Run(t.Context(), p)
	if !errors.Is(err, load.ErrBodies) || !strings.Contains(err.Error(), "1 of 40, the first: no body 7") {
		t.Errorf("err = %v", err)
	}
	got := map[string]int{}
	for _, c := range b.calls(t) {
		got[fmt.Sprint(c.Outcome, " ", c.Code, " ", c.RetryAfter)]++
	}
	for key, want := range map[string][2]int{
		"ok 200 0s": {9, 10}, "failed 429 2s": {9, 10}, "failed 500 0s": {9, 10}, "unknown 0 0s": {9, 10}, "failed 0 0s": {1, 1},
	} {
		if n := got[key]; n < want[0] || n > want[1] {
			t.Errorf("%q: %d calls, want %v; all: %v", key, n, want, got)
		}
	}
	if n := told[record.OK].Load() + told[record.Failed].Load() + told[record.Unknown].Load(); n != 39 {
		t.Errorf("Done was told %v", &told)
	}
}

func TestInterruptedRunWaitsForWhatIsInFlight(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }, load.Options{})
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(stop) })
	if err := b.Run(ctx, plan(100_000, time.Millisecond)); !errors.Is(err, stop) {
		t.Errorf("err = %v, want the cause", err)
	}
	calls := b.calls(t)
	if len(calls) == 0 || len(calls) > 1000 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if c.Outcome != record.OK {
			t.Fatalf("a call in flight was not waited for: %+v", c)
		}
	}
}

// Few slots and much that is due: each flight waits once, however often it is
// driven meanwhile, and all of them get on.
func TestFewSlots(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) {}, load.Options{Connections: 1, InFlight: 3, Burst: 10})
	var most atomic.Int64
	p := plan(1500, 0)
	p.Pace = pace.Burst()
	p.Done = func(load.Result) { most.Store(max(most.Load(), int64(b.Starved()))) }
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if err := b.Run(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most.Load() > 3 || b.Progress().OK != 4500 {
		t.Errorf("up to %d entries of 3 flights wait; %+v", most.Load(), b.Progress())
	}
}
