package flight

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// TestAHotQueueIsNotClean has a queue whose items come back all the time, on a
// plane of somebody else's.
func TestAHotQueueIsNotClean(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.plane, _ = flighttest.HotQueue(t)
	b.options.Kubeconfig, b.manifest.Format = "somebody else's", record.Format
	b.scenario.Preflight.Wait, b.scenario.Preflight.Dirty = unit.Duration(1500*time.Millisecond), "tag"
	if err := b.passGate(t.Context(), inspect.ReadCPU(b.clock, b.plane)); err != nil {
		t.Fatal(err)
	}
	g := b.manifest.Gate
	if g.Clean || len(g.Faults) != 1 || g.Faults[0].Kind != preflight.Retries || !strings.Contains(g.Faults[0].Text, "items/s come back to queue kcm job") {
		t.Errorf("%+v", g)
	}
}

// TestALookThatDidNotEnd has a server that is too slow for the gate's wait.
func TestALookThatDidNotEnd(t *testing.T) {
	b := spoiled(t)
	b.scenario.Preflight.Dirty, b.scenario.Preflight.Tolerate = "tag", []string{preflight.Terminating, preflight.Unread, preflight.ProbeWrite, preflight.Host}
	b.server.Mu.Lock()
	b.server.Refuse = func(string, string) int { time.Sleep(30 * time.Millisecond); return 0 }
	b.server.Mu.Unlock()
	if err := b.passGate(t.Context(), inspect.ReadCPU(b.clock, b.plane)); err != nil {
		t.Fatal(err)
	}
	if g := b.manifest.Gate; g.Clean || len(g.Faults) != 1 || g.Faults[0].Kind != preflight.Unread || !strings.Contains(g.Faults[0].Text, "not looked at to the end") {
		t.Errorf("%+v", g)
	}
}

// TestLeaveNeedsNoRecords deletes a run's namespaces when its disk is full.
func TestLeaveNeedsNoRecords(t *testing.T) {
	b := newBench(t, head(2)+"- {pause: 1ms}\n")
	b.ours = []bool{true, true}
	for i := range b.ours {
		b.server.Objects["/api/v1/namespaces/"+b.workload.Namespace(i)] = map[string]any{"metadata": map[string]any{"name": b.workload.Namespace(i)}}
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	if err := b.records.Close(); err != nil {
		t.Fatal(err)
	}
	tries := 0
	b.server.Mu.Lock()
	b.server.Refuse = func(method, _ string) int {
		if method == http.MethodDelete {
			if tries++; tries == 1 {
				return http.StatusTooManyRequests
			}
		}
		return 0
	}
	b.server.Mu.Unlock()
	b.leave(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeaveAfterLostAnswers leaves a cluster on which one namespace was made
// although the server gave up, and others were there before.
func TestLeaveAfterLostAnswers(t *testing.T) {
	b := newBench(t, head(3)+"- {pause: 1ms}\n")
	b.stamp = "of this run"
	path := func(i int) string { return "/api/v1/namespaces/" + b.workload.Namespace(i) }
	for _, i := range []int{1, 2} {
		b.server.Objects[path(i)] = map[string]any{"metadata": map[string]any{"name": b.workload.Namespace(i)}}
	}
	b.server.Mu.Lock()
	b.server.Refuse = func(method, at string) int {
		var made map[string]any
		if err := json.Unmarshal([]byte(b.server.Bodies[method+" "+at]), &made); method != http.MethodPost || err != nil {
			return 0
		}
		switch made["metadata"].(map[string]any)["name"] {
		case b.workload.Namespace(0): // it is stored, and the answer lost
			b.server.Objects[path(0)] = made
			return http.StatusGatewayTimeout
		case b.workload.Namespace(1):
			return http.StatusInternalServerError
		}
		return http.StatusConflict
	}
	b.server.Mu.Unlock()
	if err := b.namespaces(t.Context()); err == nil {
		t.Fatal("a run that has not got its namespaces goes on")
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	b.leave(t.Context())
	if left, want := b.server.Names("/api/v1/namespaces"), []string{b.workload.Namespace(1), b.workload.Namespace(2)}; !slices.Equal(left, want) {
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
