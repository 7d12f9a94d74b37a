package accuracy_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// long skips a proof that takes long or wants the machine to itself.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("WINDTUNNEL_ACCURACY") == "" {
		t.Skip("takes a while and wants a quiet machine; set WINDTUNNEL_ACCURACY=1")
	}
}

// delays are how long the stub takes for each call: mostly tens of
// milliseconds, one in fifty ten times as long, and one call longer than all.
func delays(n int, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 1))
	out := make([]time.Duration, n)
	for i := range out {
		ms := 5 * math.Exp(random.NormFloat64()*0.6+1)
		if random.IntN(50) == 0 {
			ms = 100 + 200*random.Float64()
		}
		out[i] = time.Duration(ms * float64(time.Millisecond))
	}
	out[n/2] = 700 * time.Millisecond
	return out
}

// alarm wakes whoever asks, to within a fraction of a millisecond: a thread of
// its own sleeps in the kernel, since a runtime's timers may be a millisecond
// late when all else is idle.
type alarm struct {
	mu    sync.Mutex
	waits map[chan struct{}]clock.Time
	watch clock.Clock
}

const alarmEvery = 100 * time.Microsecond

func (a *alarm) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nap := syscall.NsecToTimespec(int64(alarmEvery))
	for ctx.Err() == nil {
		_ = syscall.Nanosleep(&nap, nil) // an interrupted nap is a shorter one
		now := a.watch.Now()
		a.mu.Lock()
		for c, at := range a.waits {
			if at <= now {
				close(c)
				delete(a.waits, c)
			}
		}
		a.mu.Unlock()
	}
}

func (a *alarm) wait(until clock.Time) {
	c := make(chan struct{})
	a.mu.Lock()
	a.waits[c] = until
	a.mu.Unlock()
	<-c
}

// stub is an API server that answers each call after its own delay: the number
// at the end of the path says which.
// Held says how long it did take, which on a busy machine is longer.
func stub(t *testing.T, watch clock.Clock, delays []time.Duration) (e endpoint.Endpoint, held []time.Duration) {
	t.Helper()
	held = make([]time.Duration, len(delays))
	a := &alarm{waits: map[chan struct{}]clock.Time{}, watch: watch}
	ctx, stop := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { a.run(ctx) })
	t.Cleanup(func() { stop(); wait.Wait() })
	served := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := watch.Now()
		i, err := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '-')+1:])
		if err != nil || i >= len(delays) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		a.wait(came.Add(delays[i]))
		held[i] = watch.Now().Sub(came)
		_, _ = w.Write([]byte("{}"))
	}))
	served.EnableHTTP2 = true
	served.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	served.Config.ErrorLog = log.New(io.Discard, "", 0)
	served.StartTLS()
	t.Cleanup(served.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw})
	return endpoint.New(served.URL, ca, endpoint.Identity{}), held
}

// TestKnownDelays holds the reported latencies against a server whose delays are
// known: p50, p99 and the longest, at 2,000 calls a second.
func TestKnownDelays(t *testing.T) {
	long(t)
	const rate, seconds, seed = 2000, 10, 7
	truth := delays(rate*seconds, seed)
	watch := clock.Start()
	e, held := stub(t, watch, truth)
	path := filepath.Join(t.TempDir(), record.StreamFile)
	records := repotest.Must(record.Create(path))(t)
	g := repotest.Must(load.New(load.Options{Endpoint: e, Records: records, Clock: watch}))(t)
	defer g.Close()
	event := func(what record.EventType, d record.Detail) {
		records.Event(record.Event{At: watch.Now(), Type: what, Name: "delays", Detail: d})
	}
	event(record.EventRunBegan, record.Detail{})
	repotest.NoError(t, g.Run(t.Context(), load.Plan{
		Step: "delays", Ops: []record.Op{{Source: load.Source, Step: "delays", Verb: "get", Resource: "configmaps", Scope: "resource"}},
		Count: len(truth), Pace: pace.Constant(rate),
		Build: func(i int, req *load.Request) (bool, error) {
			req.Method, req.Path = http.MethodGet, "/api/v1/namespaces/default/configmaps/d-"+strconv.Itoa(i)
			return true, nil
		},
	}))
	event(record.EventRunEnded, record.Detail{Reason: record.Done})
	repotest.NoError(t, records.Close())
	sc := &scenario.Scenario{Name: "delays"}
	for _, s := range []string{"p50", "p99", "max"} {
		bound := 10.0
		sc.Objectives = append(sc.Objectives, scenario.Objective{Name: s, SLI: "call-latency", Statistic: s, Max: &bound})
	}
	facts := repotest.Must(run.Collect(path, record.Manifest{}))(t)
	j := repotest.Must(slo.Judge(&run.Run{Scenario: sc, Facts: facts}))(t)
	want, did := quantiles(truth), quantiles(held)
	for _, r := range j.Objectives {
		near(t, r, want[r.Name].Seconds())
		t.Logf("the stub itself took %.3f ms for %s", 1e3*did[r.Name].Seconds(), r.Name)
	}
	t.Logf("%s %q, late %d, at most %.3f ms", j.Verdict, j.Reasons, j.Self.LateCalls, 1e3*j.Self.MaxLatenessSeconds)
}

// quantiles are those that the test is about: values of the sample.
func quantiles(of []time.Duration) map[string]time.Duration {
	of = slices.Sorted(slices.Values(of))
	return map[string]time.Duration{"p50": of[len(of)/2-1], "p99": of[len(of)*99/100-1], "max": of[len(of)-1]}
}

// near wants a result within 1 ms or 1 % of the truth, whichever is more.
func near(t *testing.T, r slo.Result, want float64) {
	t.Helper()
	if r.Value == nil {
		t.Errorf("%s was not measured: %q", r.Name, r.Warnings)
		return
	}
	off := *r.Value - want
	said := fmt.Sprintf("%s is %.3f ms of %d calls, the truth is %.3f ms: off by %+.3f ms", r.Name, 1e3**r.Value, r.Samples, 1e3*want, 1e3*off)
	if math.Abs(off) > max(1e-3, 0.01*want) {
		t.Error(said)
	} else {
		t.Log(said)
	}
}
