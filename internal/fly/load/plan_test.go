package load_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// told reads the events of a type back, after calls did close the records.
func (b *bench) told(t *testing.T, what record.EventType) []string {
	t.Helper()
	var texts []string
	repotest.Must(record.Read(b.path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) {
			if m.Type == what {
				texts = append(texts, fmt.Sprintf("%s: %d %g %d", m.Name, m.Count, m.Rate, m.Parallel))
			}
		}}
	}))(t)
	return texts
}

func op(verb string) record.Op {
	return record.Op{Source: load.Source, Step: "s", Verb: verb, Resource: "pods", Scope: "resource"}
}

func get(i int, req *load.Request) (bool, error) {
	req.Method, req.Path = http.MethodGet, fmt.Sprintf("/x/%d", i)
	return true, nil
}

func TestPlansThatCannotBe(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) {}, load.Options{})
	ops := []record.Op{op("get")}
	for name, tt := range map[string]struct {
		plan load.Plan
		err  error
		says string
	}{
		"no operation":   {load.Plan{Count: 1, Pace: pace.Burst(), Build: get}, load.ErrPlan, "it needs Ops"},
		"endless burst":  {load.Plan{Ops: ops, For: time.Second, Pace: pace.Burst(), Build: get}, load.ErrPlan, "a burst needs a count"},
		"negative":       {load.Plan{Ops: ops, Count: -1, Pace: pace.Burst(), Build: get}, load.ErrPlan, "-1 calls"},
		"many retries":   {load.Plan{Ops: ops, Count: 1, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 300}}, load.ErrPlan, "300 retries"},
		"never due":      {load.Plan{Ops: ops, Count: 60, Pace: pace.Ramp(10, 0, 10*time.Second), Build: get}, load.ErrNeverDue, "60 calls"},
		"short replay":   {load.Plan{Ops: ops, Count: 2, Pace: pace.Replay([]time.Duration{0}), Build: get}, load.ErrNeverDue, "2 calls"},
		"bad operation":  {load.Plan{Ops: ops, Count: 1, Pace: pace.Burst(), Build: func(_ int, r *load.Request) (bool, error) { r.Op = 1; return true, nil }}, load.ErrBodies, "operation 1 of 1"},
		"nothing at all": {load.Plan{Ops: ops, Pace: pace.Burst(), Build: get}, nil, ""},
	} {
		err := b.Run(t.Context(), tt.plan)
		if !errors.Is(err, tt.err) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Time ends a plan: no call is due later.
func TestTimeEndsAPlan(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) {}, load.Options{})
	for _, tt := range []struct {
		count int
		limit time.Duration
		want  int
	}{{0, 95 * time.Millisecond, 20}, {5, 95 * time.Millisecond, 5}, {1000, 100 * time.Millisecond, 21}} {
		var n atomic.Int64
		p := plan(tt.count, 5*time.Millisecond)
		p.For, p.Done = tt.limit, func(load.Result) { n.Add(1) }
		if err := b.Run(t.Context(), p); err != nil || int(n.Load()) != tt.want {
			t.Errorf("%d calls, at most %v: %d were sent, want %d (%v)", tt.count, tt.limit, n.Load(), tt.want, err)
		}
	}
	b.calls(t)
	if got := b.told(t, record.EventLoadAsked); !slices.Equal(got, []string{"s: 20 200 0", "s: 5 200 0", "s: 21 200 0"}) {
		t.Errorf("requested %v", got)
	}
	if got := b.told(t, record.EventLoadAchieved); len(got) != 3 || !strings.HasPrefix(got[0], "s: 20 ") {
		t.Errorf("achieved %v", got)
	}
}

// A closed pool has so many calls at a time, however long they take, and its
// calls are due when they are sent.
func TestClosedPool(t *testing.T) {
	var now, most atomic.Int64
	b := newBench(t, func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
	}, load.Options{})
	p := load.Plan{Ops: []record.Op{op("get")}, Count: 100, Pace: pace.Closed(7), Build: get}
	repotest.NoError(t, b.Run(t.Context(), p))
	p.Count, p.For, p.Pace = 0, 60*time.Millisecond, pace.Closed(2)
	repotest.NoError(t, b.Run(t.Context(), p))
	calls := b.calls(t)
	if n := len(calls) - 100; n < 2 || n > 26 { // how many of 24 a busy machine comes to, nobody knows
		t.Errorf("%d calls of 5 ms, two at a time for 60 ms", n)
	}
	if most.Load() != 7 {
		t.Errorf("%d calls at a time, want 7", most.Load())
	}
	for _, c := range calls {
		if c.Due != c.Sent || c.Latency() < 5*time.Millisecond {
			t.Fatalf("%+v", c)
		}
	}
	if got := b.told(t, record.EventLoadAsked); !slices.Equal(got, []string{"s: 100 0 7", "s: 0 0 2"}) {
		t.Errorf("requested %v", got)
	}
}

// TestProofClosedPoolGoesOn holds that a place in a closed pool is taken again at once.
func TestProofClosedPoolGoesOn(t *testing.T) {
	repotest.Proof(t)
	b := newBench(t, func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) }, load.Options{})
	repotest.NoError(t, b.Run(t.Context(), load.Plan{Ops: []record.Op{op("get")}, For: time.Second, Pace: pace.Closed(2), Build: get}))
	if n := len(b.calls(t)); n < 300 {
		t.Errorf("%d calls of 5 ms, two at a time for a second: want 300 of 400 at least", n)
	}
}

// Each call of a mix is recorded as what it is.
func TestMix(t *testing.T) {
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
	}, load.Options{})
	mix := load.NewMix([]float64{1, 2}, 5)
	repotest.NoError(t, b.Run(t.Context(), load.Plan{Ops: []record.Op{op("get"), op("create")}, Count: 300, Pace: pace.Burst(), Build: func(i int, r *load.Request) (bool, error) {
		if r.Op = mix.Pick(i); r.Op == 1 {
			return post(i, r)
		}
		return get(i, r)
	}}))
	n := map[uint16]int{}
	for _, c := range b.calls(t) {
		if (c.Code == 201) != (c.Op == 1) {
			t.Fatalf("%+v", c)
		}
		n[c.Code]++
	}
	if n[200]+n[201] != 300 || n[201] < 170 || n[201] > 230 {
		t.Errorf("answers %v of weights 1 and 2", n)
	}
}

// A bundle's calls are due at the same time and sent in order.
func TestBundle(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) {}, load.Options{Connections: 1})
	var order []int
	err := b.Run(t.Context(), load.Plan{Ops: []record.Op{op("get")}, Count: 30, Pace: pace.Constant(100).Bundle(3), Build: func(i int, r *load.Request) (bool, error) {
		order = append(order, i)
		return get(i, r)
	}})
	if err != nil || !slices.IsSorted(order) {
		t.Fatal(err, order)
	}
	dues := map[int64]int{}
	for _, c := range b.calls(t) {
		dues[int64(c.Due)]++
	}
	for due, n := range dues {
		if n != 3 {
			t.Errorf("%d calls due at %d", n, due)
		}
	}
	if got := b.told(t, record.EventLoadAsked); got[0] != "s: 30 300 0" {
		t.Errorf("requested %v", got)
	}
}

// GET, then PUT: what follows an answer is made of it, and is due when it came.
func TestThen(t *testing.T) {
	var mu sync.Mutex
	puts := map[string]bool{}
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"v%s"}}`, r.URL.Path[3:])
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		puts[string(body)] = true
	}, load.Options{})
	var last atomic.Int64
	err := b.Run(t.Context(), load.Plan{
		Ops: []record.Op{op("get"), op("update")}, Count: 50, Pace: pace.Burst(),
		Build: func(i int, r *load.Request) (bool, error) {
			r.Discard = false
			return get(i, r)
		},
		Then: func(r load.Result, req *load.Request) (bool, error) {
			if r.Chain > 0 {
				return false, nil
			}
			if r.Index == 13 {
				return false, errors.New("unlucky")
			}
			version := load.ResourceVersion(r.Response.Body)
			req.Op, req.Method, req.Path, req.ContentType = 1, http.MethodPut, fmt.Sprintf("/x/%d", r.Index), load.JSON
			var err error
			req.Body, err = load.AppendVersioned(req.Body, fmt.Appendf(nil, `{"metadata":{"name":"%d"}}`, r.Index), version)
			return true, err
		},
		Done: func(r load.Result) {
			if r.Last {
				last.Add(1)
			}
		},
	})
	if !errors.Is(err, load.ErrBodies) || !strings.Contains(err.Error(), "1 of 50, the first: unlucky") {
		t.Error(err)
	}
	gets, updates := 0, 0
	for _, c := range b.calls(t) {
		if c.Op == 0 {
			gets++
		} else if updates++; c.Due == 0 {
			t.Errorf("%+v", c)
		}
	}
	// The one that could not be built counts as a failed call of its kind.
	if gets != 51 || updates != 49 || last.Load() != 50 {
		t.Errorf("%d gets, %d updates, %d ends", gets, updates, last.Load())
	}
	for i := range 50 {
		if want := fmt.Sprintf(`{"metadata":{"resourceVersion":"v%d","name":"%d"}}`, i, i); puts[want] == (i == 13) {
			t.Errorf("%s: %v", want, puts[want])
		}
	}
}

func TestDrawsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range 1000 {
		seen[load.Draw(1, i)] = true
		seen[load.Draw(2, i)] = true
	}
	if len(seen) != 2000 || math.MaxInt < 0 {
		t.Errorf("%d different draws of 2000", len(seen))
	}
}
