package load_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// real starts a real plane and a generator of load for it.
func real(t *testing.T) (*plane.Plane, *bench) {
	t.Helper()
	path := repotest.Binary(t)
	p, err := plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: path})
	repotest.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	b := &bench{path: filepath.Join(t.TempDir(), "r.wt")}
	if b.records, err = record.Create(b.path); err != nil {
		t.Fatal(err)
	}
	b.clock = clock.Start()
	if b.Generator, err = load.New(load.Options{Endpoint: p.Endpoint(plane.Load), Records: b.records, Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Generator.Close() })
	return p, b
}

const stall = 2 * time.Second

// An API server that is stopped for two seconds must show: p99 is about two
// seconds, and each call that fell due meanwhile is counted, from the moment it
// was due.
func TestAStoppedServerShowsInP99(t *testing.T) { stalled(t) }

// stalled stops the API server under load, and returns the calls' p99.
func stalled(t *testing.T) time.Duration {
	t.Helper()
	const rate, length = 200, 8 * time.Second
	p, b := real(t)
	server, ok := p.Component("kube-apiserver")
	if !ok {
		t.Fatal("no API server")
	}
	resource := repotest.Must(b.Resources().Named(t.Context(), "configmaps"))(t)
	form := repotest.Must(load.NewForm(resource, load.Target{Verb: "create"}))(t)
	var from, to clock.Time
	stopped := make(chan error, 1)
	time.AfterFunc(3*time.Second, func() {
		err := syscall.Kill(server.PID, syscall.SIGSTOP)
		repotest.Eventually(t, "every thread of the server is stopped", func() bool { return halted(server.PID) })
		from = b.clock.Now()
		time.Sleep(stall)
		to = b.clock.Now()
		if err == nil {
			err = syscall.Kill(server.PID, syscall.SIGCONT)
		}
		stopped <- err
	})
	const calls = int(rate * length / time.Second)
	repotest.NoError(t, b.Run(t.Context(), load.Plan{
		Ops: []record.Op{form.Op("s")}, Count: calls, Pace: pace.Constant(rate),
		Build: func(i int, req *load.Request) (bool, error) {
			name := fmt.Sprintf("object-%d", i)
			form.Fill(req, "default", name)
			req.Body = fmt.Appendf(req.Body, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":"b"}}`, name)
			return true, nil
		},
	}))
	repotest.NoError(t, <-stopped)
	var latencies []time.Duration
	meanwhile := 0
	for _, c := range b.calls(t) {
		latencies = append(latencies, c.Latency())
		// All at once may be more than the server's queues take: it says so.
		if c.Outcome != record.OK && c.Code != http.StatusTooManyRequests {
			t.Errorf("%+v", c)
		}
		if c.Due > from && c.Due < to {
			if meanwhile++; c.Done < to {
				t.Errorf("a stopped server answered: %+v", c)
			}
		}
	}
	slices.Sort(latencies)
	if len(latencies) != calls {
		t.Fatalf("%d of %d calls were recorded", len(latencies), calls)
	}
	p50, p99 := latencies[calls/2], latencies[calls*99/100]
	t.Logf("p50 %v, p99 %v, longest %v; %d calls fell due in the stall of %v", p50, p99, latencies[calls-1], meanwhile, to.Sub(from))
	if want := int(to.Sub(from).Seconds() * rate); meanwhile < want-2 || meanwhile > want+2 {
		t.Errorf("%d calls fell due in the stall, want %d", meanwhile, want)
	}
	// The 16 longest of 1,600 are those due in the first 80 ms of the stall.
	if p99 < stall*9/10 {
		t.Errorf("p99 is %v, the stall took %v", p99, stall)
	}
	return p99
}

func TestProofAStallIsMeasuredAsLongAsItWas(t *testing.T) {
	repotest.Proof(t)
	if p99 := stalled(t); p99 > 2*stall {
		t.Errorf("p99 is %v, the stall took %v", p99, stall)
	}
}

// halted says whether all threads of a process are stopped: the signal's sender
// goes on before they are.
func halted(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		raw, _ := os.ReadFile(path)
		if _, state, _ := strings.Cut(string(raw), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}
