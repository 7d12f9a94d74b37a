package load_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestFailuresAreTold has calls refused in several ways: each is told when it is
// first seen, and counted to the end, over the plans of a step.
func TestFailuresAreTold(t *testing.T) {
	var seen counter
	var mu sync.Mutex
	var told []string
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		n := seen.add(r.URL.Path)
		switch {
		case r.URL.Path == "/x/0" && n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/x/3":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, "not JSON")
		case r.URL.Path != "/x/0":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(w, `{"kind":"Status","reason":"Invalid","code":422,"message":"x %s is invalid"}`, r.URL.Path)
		}
	}, load.Options{Failed: func(e record.Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(e.Failure.Code, " ", e.Text))
	}})
	p := load.Plan{
		Step: "fill", Ops: []record.Op{op("get")}, Count: 4, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 1, Delay: time.Millisecond},
		Object: func(i int) string { return fmt.Sprint("n/", i) },
	}
	for range 2 {
		repotest.NoError(t, b.Run(t.Context(), p))
	}
	if n := b.FailedForGood(func(step string, code int) bool { return step == "fill" && code == 409 }); n != 4 {
		t.Errorf("%d calls failed though it was not expected, want 4", n)
	}
	if slices.Sort(told); len(told) != 3 || !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "422 x /x/") }) {
		t.Errorf("told %q", told)
	}
	last := map[int]record.Failure{}
	calls, again := 0, 0
	repotest.NoError(t, b.records.Close())
	repotest.Must(record.Read(b.path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Call: func(c record.Call) {
				calls++
				if c.Again {
					again++
				}
				if c.ForGood() != (c.Code >= 400 && c.Code < 500) {
					t.Errorf("call for good: %+v", c)
				}
			},
			Event: func(e record.Event) {
				if e.Type == record.EventCallsFailed {
					f := *e.Failure
					f.Object = ""
					last[f.Code] = f
				}
			},
		}
	}))(t)
	about := record.Failure{Verb: "get", Resource: op("get").Resource}
	want := map[int]record.Failure{}
	for _, f := range []record.Failure{{Code: 409, Count: 2}, {Code: 422, Reason: "Invalid", Count: 4}, {Code: 503, Retried: 1}} {
		f.Verb, f.Resource = about.Verb, about.Resource
		want[f.Code] = f
	}
	if !reflect.DeepEqual(last, want) || calls != 9 || again != 1 {
		t.Errorf("%d calls, %d sent again, failures %+v", calls, again, last)
	}
}

// TestFailuresAreBounded has each call refused for a reason of its own.
func TestFailuresAreBounded(t *testing.T) {
	var seen counter
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","reason":"R%d","message":"no"}`, seen.add("all"))
	}, load.Options{})
	repotest.NoError(t, b.Run(t.Context(), load.Plan{Ops: []record.Op{op("get")}, Count: 500, Pace: pace.Burst(), Build: get}))
	repotest.NoError(t, b.records.Close())
	ways := map[string]int{}
	_, err := record.Read(b.path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) {
			if e.Type == record.EventCallsFailed {
				ways[e.Failure.Reason] = e.Failure.Count
			}
		}}
	})
	sum := 0
	for _, n := range ways {
		sum += n
	}
	if err != nil || len(ways) != 51 || sum != 500 || ways["others"] != 450 {
		t.Errorf("%d ways, %d calls, %d others, %v", len(ways), sum, ways["others"], err)
	}
}

// TestRefusalOfARetry has creates answered with a failure first, and then with the
// word that the object is there: it is the load's own only where the first attempt
// may have been done.
func TestRefusalOfARetry(t *testing.T) {
	var seen counter
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		if first := map[string]int{"/x/0": http.StatusTooManyRequests, "/x/1": http.StatusInternalServerError}[r.URL.Path]; seen.add(r.URL.Path) == 1 {
			w.WriteHeader(first)
			return
		}
		w.WriteHeader(http.StatusConflict)
	}, load.Options{})
	var mu sync.Mutex
	got := map[int]bool{}
	p := load.Plan{
		Ops: []record.Op{op("create")}, Count: 2, Pace: pace.Burst(), Build: get, Retry: load.Retry{Times: 1, Delay: time.Millisecond},
		Done: func(r load.Result) {
			if mu.Lock(); r.Last {
				got[r.Index] = r.Reached
			}
			mu.Unlock()
		},
	}
	repotest.NoError(t, b.Run(t.Context(), p))
	forGood := 0
	for _, c := range b.calls(t) {
		if c.ForGood() {
			forGood++
		}
	}
	if !reflect.DeepEqual(got, map[int]bool{0: false, 1: true}) || forGood != 1 {
		t.Errorf("reached: %v, %d calls failed for good", got, forGood)
	}
}
