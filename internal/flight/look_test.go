package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// hot gives a bench a component whose queue gets so many items back a second.
func hot(t *testing.T, b *bench) (rate *atomic.Int64) {
	t.Helper()
	rate = &atomic.Int64{}
	done, stopped := make(chan struct{}), make(chan struct{})
	var count atomic.Int64
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				count.Add(rate.Load())
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() { close(done); <-stopped })
	c := served(t, func() string {
		return fmt.Sprintf("workqueue_depth{name=\"job\"} 0\nworkqueue_retries_total{name=\"job\"} %d\n", 100000+count.Load())
	})
	b.plane = &plane.Plane{}
	if err := b.plane.Join(c); err != nil {
		t.Fatal(err)
	}
	rate.Store(1) // 100 a second
	return rate
}

// TestAHotQueueIsNotClean has a queue whose items come back all the time, on a
// plane of somebody else's.
func TestAHotQueueIsNotClean(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	hot(t, b)
	b.options.Kubeconfig, b.manifest.Format = "somebody else's", record.ManifestFormat
	b.scenario.Gate.Wait, b.scenario.Gate.Unclean = unit.Duration(1500*time.Millisecond), "tag"
	if err := b.passGate(t.Context(), b.newLooker()); err != nil {
		t.Fatal(err)
	}
	g := b.manifest.Gate
	if g.Clean || len(g.Faults) != 1 || g.Faults[0].Kind != preflight.Retries || !strings.Contains(g.Faults[0].Text, "items/s come back to queue kcm job") {
		t.Errorf("%+v", g)
	}
}

// TestCoolWithRetries cools a plane that always had retries, and then one that
// has more of them than at first.
func TestCoolWithRetries(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {name: c, cool: {within: 7s}}\n")
	rate := hot(t, b)
	if err := b.levels(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.first.Queues["kcm job"].Retries; got < 30 || got > 200 {
		t.Fatalf("%v items/s come back, it should be 100", got)
	}
	cool := &scenario.Cool{Within: unit.Duration(7 * time.Second)}
	if err := b.cool(t.Context(), cool); err != nil {
		t.Errorf("it does not come to rest: %v", err)
	}
	rate.Store(10)
	cool.Within = unit.Duration(3 * time.Second)
	if err := b.cool(t.Context(), cool); !errors.Is(err, preflight.ErrNotQuiet) || !strings.Contains(err.Error(), "come back to queue kcm job") {
		t.Errorf("ten times as many retries: %v", err)
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looker{r: &run{clock: clock.Start()}, retries: map[string]retried{}}
		look := func(after time.Duration, component string, counts map[string]float64) map[string]float64 {
			time.Sleep(after)
			return l.rates(component, counts)
		}
		if got := look(0, "kcm", map[string]float64{"a": 1e6}); got != nil {
			t.Errorf("known from one look: %v", got)
		}
		if got := look(shortest/2, "kcm", map[string]float64{"a": 1e6}); got != nil {
			t.Errorf("known after no time: %v", got)
		}
		look(time.Second, "other", nil) // kcm could not be read
		if got := look(time.Second-shortest/2, "kcm", map[string]float64{"a": 1e6 + 20, "b": 4}); got["a"] != 10 || got["b"] != 2 {
			t.Errorf("over two seconds: %v", got)
		}
		if got := look(shortest/2, "kcm", map[string]float64{"a": 2e6}); got["a"] != 10 {
			t.Errorf("so soon the rate is the one before: %v", got)
		}
		if got := look(time.Second-shortest/2, "kcm", map[string]float64{"a": 5}); got["a"] != 5 {
			t.Errorf("started again: %v", got)
		}
	})
}

// TestRefusedCanaries has leases that cannot be made: that is not for us to do,
// or it is a fault.
func TestRefusedCanaries(t *testing.T) {
	for code, fault := range map[int]bool{
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusTooManyRequests: true, http.StatusInternalServerError: true,
	} {
		b := newBench(t, head(1)+"- {pause: 1ms}\n")
		b.server.refuse = func(method, path string) int {
			if method != http.MethodPost {
				return 0
			}
			if fault { // it took effect all the same
				var lease map[string]any
				if err := json.Unmarshal([]byte(b.server.bodies[method+" "+path]), &lease); err != nil {
					t.Error(err)
				}
				b.server.change("ADDED", path+"/"+lease["metadata"].(map[string]any)["name"].(string), lease)
			}
			return code
		}
		var s preflight.State
		b.newLooker().canaries(t.Context(), &s)
		if (len(s.Unread) == 1) != fault || s.Canaries != nil {
			t.Errorf("%d: %+v", code, s)
		}
		if left := b.server.names(canaryPath); len(left) != 0 {
			t.Errorf("%d: %v are still there", code, left)
		}
	}
}

// TestALostCanaryIsDeleted gives up before the answer comes.
func TestALostCanaryIsDeleted(t *testing.T) {
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.server.refuse = func(method, _ string) int {
		if method == http.MethodPost {
			time.Sleep(300 * time.Millisecond)
		}
		return 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var s preflight.State
	b.newLooker().canaries(ctx, &s)
	if left := b.server.names(canaryPath); len(left) != 0 || len(s.Unread) != 1 || b.server.count("DELETE ") != 1 {
		t.Errorf("%+v, and %v are still there", s, left)
	}
}

// TestALookThatDidNotEnd has a server that is too slow for the gate's wait.
func TestALookThatDidNotEnd(t *testing.T) {
	b := spoiled(t)
	b.scenario.Gate.Unclean, b.scenario.Gate.Tolerate = "tag", []string{preflight.Terminating, preflight.Unread, preflight.Canary, preflight.Host}
	b.server.mu.Lock()
	b.server.refuse = func(string, string) int { time.Sleep(30 * time.Millisecond); return 0 }
	b.server.mu.Unlock()
	if err := b.passGate(t.Context(), b.newLooker()); err != nil {
		t.Fatal(err)
	}
	if g := b.manifest.Gate; g.Clean || len(g.Faults) != 1 || g.Faults[0].Kind != preflight.Unread || !strings.Contains(g.Faults[0].Text, "not looked at to the end") {
		t.Errorf("%+v", g)
	}
}

// TestAliveByTheServersClock tells a fleet that runs from one that is gone. The
// server's clock is an hour behind ours, or ahead of it.
func TestAliveByTheServersClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			looker := func() *looker { return &looker{r: &run{clock: clock.Start()}} }
			at := func(ago time.Duration) time.Time { return time.Now().Add(off - ago) }
			if !looker().alive(at(10*time.Second), at(time.Second)) {
				t.Errorf("%v: a fleet that runs is taken for one that is gone", off)
			}
			if looker().alive(at(10*time.Minute), at(time.Second)) {
				t.Errorf("%v: a fleet that is gone is taken for one that runs", off)
			}
			if looker().alive(time.Time{}, at(0)) {
				t.Errorf("%v: there is no fleet", off)
			}
			l := looker() // whose leases are all that anybody writes, and move
			first := at(2 * time.Minute)
			l.alive(first, first.Add(5*time.Minute))
			time.Sleep(10 * time.Second)
			if !l.alive(first.Add(10*time.Second), first.Add(5*time.Minute)) {
				t.Errorf("%v: its leases move", off)
			}
			time.Sleep(2 * aliveWithin)
			if l.alive(first.Add(10*time.Second), first.Add(10*time.Second)) {
				t.Errorf("%v: its leases do not move any more", off)
			}
		})
	}
}

// TestResidueByTheServersClock has the node of a fleet that runs on a cluster
// whose clock is an hour behind ours, and then one whose fleet is gone.
func TestResidueByTheServersClock(t *testing.T) {
	for ago, left := range map[time.Duration]int{10 * time.Second: 0, 10 * time.Minute: 2} {
		b := newBench(t, head(1)+"- {pause: 1ms}\n")
		theirs := time.Now().UTC().Add(-time.Hour)
		written := func(path, manager string, at time.Time) {
			b.server.objects[path] = map[string]any{"metadata": map[string]any{"name": path[strings.LastIndex(path, "/")+1:],
				"managedFields": []any{map[string]any{"manager": manager, "time": at.Format(time.RFC3339)}}}}
		}
		b.server.mu.Lock()
		written("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver", "kube-apiserver", theirs)
		written("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0", "windtunnel-fleet", theirs.Add(-ago))
		written("/api/v1/namespaces/default/configmaps/of-the-fleet", "windtunnel-fleet", theirs.Add(-ago))
		b.server.mu.Unlock()
		l := b.newLooker()
		l.served = []discovery.Resource{
			{Name: "leases.coordination.k8s.io", Root: "/apis/coordination.k8s.io/v1", Plural: "leases", Namespaced: true},
			{Name: "configmaps", Root: "/api/v1", Plural: "configmaps", Namespaced: true},
		}
		var s preflight.State
		if l.residue(t.Context(), &s); len(s.Leftovers) != left || len(s.Unread) > 0 {
			t.Errorf("renewed %v ago: %+v", ago, s)
		}
	}
}

// TestLeaveNeedsNoRecords deletes a run's namespaces when its disk is full.
func TestLeaveNeedsNoRecords(t *testing.T) {
	b := newBench(t, head(2)+"- {pause: 1ms}\n")
	b.ours = []bool{true, true}
	for i := range b.ours {
		b.server.objects["/api/v1/namespaces/"+b.namespaceName(i)] = map[string]any{"metadata": map[string]any{"name": b.namespaceName(i)}}
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	if err := b.records.Close(); err != nil {
		t.Fatal(err)
	}
	tries := 0
	b.server.mu.Lock()
	b.server.refuse = func(method, _ string) int {
		if method == http.MethodDelete {
			if tries++; tries == 1 {
				return http.StatusTooManyRequests
			}
		}
		return 0
	}
	b.server.mu.Unlock()
	b.leave(t.Context())
	if left := b.server.names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeaveAfterLostAnswers leaves a cluster on which one namespace was made
// although the server gave up, and others were there before.
func TestLeaveAfterLostAnswers(t *testing.T) {
	b := newBench(t, head(3)+"- {pause: 1ms}\n")
	b.stamp = "of this run"
	path := func(i int) string { return "/api/v1/namespaces/" + b.namespaceName(i) }
	for _, i := range []int{1, 2} {
		b.server.objects[path(i)] = map[string]any{"metadata": map[string]any{"name": b.namespaceName(i)}}
	}
	b.server.mu.Lock()
	b.server.refuse = func(method, at string) int {
		var made map[string]any
		if err := json.Unmarshal([]byte(b.server.bodies[method+" "+at]), &made); method != http.MethodPost || err != nil {
			return 0
		}
		switch made["metadata"].(map[string]any)["name"] {
		case b.namespaceName(0): // it is stored, and the answer lost
			b.server.objects[path(0)] = made
			return http.StatusGatewayTimeout
		case b.namespaceName(1):
			return http.StatusInternalServerError
		}
		return http.StatusConflict
	}
	b.server.mu.Unlock()
	if err := b.namespaces(t.Context()); err == nil {
		t.Fatal("a run that has not got its namespaces goes on")
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	b.leave(t.Context())
	if left, want := b.server.names("/api/v1/namespaces"), []string{b.namespaceName(1), b.namespaceName(2)}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

// TestJudgeWithoutAProfile judges a run one of whose profiles is damaged.
func TestJudgeWithoutAProfile(t *testing.T) {
	dir, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 100, Latency: 20})
	if err != nil {
		t.Fatal(err)
	}
	m.Parameters = nil // those of an invented run are not its scenario's, which has no steps
	if err := dir.Write(record.ScenarioFile, []byte("scenario: density\nsteps:\n- {pause: 1s}\n")); err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteJSON(record.ManifestFile, m); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir.File("profiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	name := m.Processes()[0].Name
	if err := os.WriteFile(dir.File(filepath.Join("profiles", name+".block.pb.gz")), []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Judge(dir); err != nil {
		t.Error(err)
	}
	summary, err := os.ReadFile(dir.File(record.SummaryFile))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(summary)), " "), "What "+name+" waits for inside is left out") {
		t.Errorf("%v, %s", err, summary)
	}
}

// TestUndiagnosed has records that the diagnosis cannot read.
func TestUndiagnosed(t *testing.T) {
	dir := record.Dir(t.TempDir())
	if err := dir.Write("diagnosis.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	notes, err := judged{dir: dir}.diagnose()
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "What gave way first is left out: ") {
		t.Errorf("%v, %q", err, notes)
	}
	if _, err := os.Stat(dir.File("diagnosis.json")); err == nil {
		t.Error("that of an earlier judgement is still there")
	}
}
