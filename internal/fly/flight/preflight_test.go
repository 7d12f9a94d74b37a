package flight

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestPreflightFindings(t *testing.T) {
	kinds := []string{preflight.Leftover, preflight.Terminating, preflight.Queue, preflight.Retries, preflight.CPU, preflight.Heap, preflight.Store, preflight.ProbeWrite, preflight.Host, preflight.Unread}
	if !slices.Equal(kinds, scenario.PreflightFindings()) {
		t.Errorf("a scenario tolerates %q, the preflight check looks at %q", scenario.PreflightFindings(), kinds)
	}
}

// A plane of the run's own is waited for longer if its subjects have work of their own at
// first, such as hollow edges that join.
func TestPatienceOfPreflight(t *testing.T) {
	subjects := []scenario.Subject{{Name: "edge-fleet"}}
	for _, c := range []struct {
		name string
		s    scenario.Scenario
		own  bool
		want time.Duration
	}{
		{"own", scenario.Scenario{}, true, time.Second},
		{"own, with subjects", scenario.Scenario{Subjects: subjects}, true, 30 * time.Second},
		{"others'", scenario.Scenario{Subjects: subjects}, false, 2 * time.Minute},
		{"as the scenario says", scenario.Scenario{Subjects: subjects, Preflight: scenario.Preflight{Wait: unit.Duration(5 * time.Second)}}, true, 5 * time.Second},
	} {
		if got, _ := preflightPatience(&c.s, c.own); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// spoiled is a bench on a cluster of somebody else's in which an earlier run
// left an object with a finalizer that nobody removes.
func spoiled(t *testing.T) *bench {
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.options.Kubeconfig = "somebody else's"
	b.scenario.Preflight.Wait = unit.Duration(time.Second)
	b.server.Add("/api/v1/namespaces/kube-system", map[string]any{"metadata": map[string]any{"uid": "c-1"}})
	b.server.Add("/api/v1/namespaces/old-1/pods/vmi-17", map[string]any{"metadata": map[string]any{
		"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []string{"test/unmount"}}})
	return b
}

func TestDirtyIsTagged(t *testing.T) {
	b := spoiled(t)
	b.scenario.Preflight.Dirty = "tag"
	repotest.NoError(t, b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)))
	_, tagged, err := record.OpenDir(string(b.dir.Dir))
	repotest.NoError(t, err)
	g := tagged.Preflight
	want := record.PreflightFinding{Kind: preflight.Terminating, Text: "1 pod terminating, held by finalizer test/unmount (old-1/vmi-17)"}
	if g == nil || g.Clean || g.Cluster != "c-1" || !slices.Contains(g.Findings, want) {
		t.Fatalf("%+v", g)
	}
	repotest.NoError(t, b.dir.records.Close())
	var marks []record.Event
	_, err = record.Read(b.dir.File(record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) { marks = append(marks, m) }}
	})
	if err != nil || !slices.ContainsFunc(marks, func(m record.Event) bool {
		return m.Type == record.EventDirty && m.Name == want.Kind && m.Text == want.Text
	}) {
		t.Errorf("%v, %+v", err, marks)
	}
}

func TestDirtyIsRefused(t *testing.T) {
	b := spoiled(t)
	b.scenario.Preflight.Dirty = "stop"
	if err := b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)); !errors.Is(err, ErrDirty) || !strings.Contains(err.Error(), "finalizer test/unmount") {
		t.Error(err)
	}
	b.scenario.Preflight.Tolerate = []string{preflight.Terminating, preflight.Host}
	b.scenario.Preflight.Wait = unit.Duration(time.Minute) // it ends at the first clean look
	if err := b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)); err != nil {
		t.Errorf("tolerated: %v", err)
	}
}

// TestPreflightWaits lets the finalizer be removed meanwhile.
func TestPreflightWaits(t *testing.T) {
	b := spoiled(t)
	b.scenario.Preflight.Wait, b.scenario.Preflight.Dirty = unit.Duration(time.Minute), "stop"
	var wait sync.WaitGroup
	wait.Go(func() {
		repotest.Eventually(t, "it has looked once", func() bool { return b.server.Count("GET /api/v1/pods") > 0 })
		b.server.Remove("/api/v1/namespaces/old-1/pods/vmi-17")
	})
	defer wait.Wait()
	repotest.NoError(t, b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)))
	if g := b.dir.manifest.Preflight; !g.Clean || g.Waited < 1 || g.Waited > 30 || len(g.ProbeWrites) != 20 {
		t.Errorf("%+v", g)
	}
}

// TestEarlierRun finds the first clean run on the same cluster.
func TestEarlierRun(t *testing.T) {
	b := spoiled(t)
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, g := range []*record.PreflightFacts{
		{Clean: true, Cluster: "c-1", Store: 5, ProbeWrites: []float64{1}, Retries: map[string]float64{"q": 2}},
		{Clean: false, Cluster: "c-1", Store: 1},
		{Clean: true, Cluster: "another", Store: 2},
		{Clean: true, Cluster: "c-1", Store: 3},
		nil,
	} {
		dir := repotest.Must(record.CreateDir(filepath.Join(filepath.Dir(string(b.dir.Dir)), fmt.Sprint("other-", i))))(t)
		m := record.Manifest{Format: record.Format, Started: started.Add(time.Duration((i+4)%5) * time.Hour), Preflight: g}
		if i == 0 {
			m.Started = started.Add(-time.Hour)
		}
		for _, err := range []error{dir.Write(record.ScenarioFile, nil), dir.Write(record.StreamFile, nil), dir.WriteJSON(record.ManifestFile, m)} {
			repotest.NoError(t, err)
		}
	}
	first, from := b.newPreflight().earlierState(t.Context())
	if from != "other-0" || first.Store != 5 || len(first.ProbeWrites) != 1 || first.Queues["q"].Retries != 2 {
		t.Errorf("%s: %+v", from, first)
	}
}

// TestAHotQueueIsDirty has a queue whose items come back all the time, on a
// plane of somebody else's.
func TestAHotQueueIsDirty(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.plane, _ = flighttest.HotQueue(t)
	b.options.Kubeconfig = "somebody else's"
	b.scenario.Preflight.Dirty = "tag"
	look := func(wait time.Duration) *record.PreflightFacts {
		b.scenario.Preflight.Wait = unit.Duration(wait)
		repotest.NoError(t, b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)))
		return b.dir.manifest.Preflight
	}
	// Until it has the queue's usual retries, the gate knows nothing: how long that takes
	// is the machine's.
	wait := 3 * time.Second
	g := look(wait)
	for len(g.Findings) == 1 && strings.HasPrefix(g.Findings[0].Text, "measuring baseline") {
		wait *= 2
		g = look(wait)
	}
	if g.Clean || len(g.Findings) != 1 || g.Findings[0].Kind != preflight.Retries || !strings.Contains(g.Findings[0].Text, "items/s come back to queue kcm job") {
		t.Errorf("%+v", g)
	}
}

// TestALookThatDidNotEnd has a server that is too slow for the gate's wait.
func TestALookThatDidNotEnd(t *testing.T) {
	b := spoiled(t)
	b.scenario.Preflight.Wait = unit.Duration(50 * time.Millisecond)
	b.scenario.Preflight.Dirty, b.scenario.Preflight.Tolerate = "tag", []string{preflight.Terminating, preflight.Unread, preflight.ProbeWrite, preflight.Host}
	b.server.Inject(func(*http.Request) *apitest.Injection { return &apitest.Injection{Delay: 30 * time.Millisecond} })
	repotest.NoError(t, b.newPreflight().awaitClean(t.Context(), inspect.ReadCPU(b.clock, b.plane)))
	if g := b.dir.manifest.Preflight; g.Clean || len(g.Findings) != 1 || g.Findings[0].Kind != preflight.Unread || !strings.Contains(g.Findings[0].Text, "not looked at to the end") {
		t.Errorf("%+v", g)
	}
}
