package measurement_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/clock"
	importer "github.com/windtunnel/windtunnel/internal/interop/kubeburner"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/measurement"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// flight is a run with invented records; times are seconds of its clock.
type flight struct {
	t    *testing.T
	w    *record.Writer
	path string // of the records
	r    run.Run
	j    slo.Judgement
}

func fly(t *testing.T, s *scenario.Scenario) *flight {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	return &flight{t: t, w: w, path: path, r: run.Run{
		Scenario: s,
		Manifest: record.Manifest{
			Seed: 1, Started: time.Date(2026, 9, 14, 10, 0, 0, 0, time.UTC), Fleet: record.FleetFacts{Nodes: 7},
			Versions: map[string]string{"windtunnel": "v0.1.0", "kubernetes": "v1.37.1"},
		},
	}, j: slo.Judgement{Verdict: slo.Pass}}
}

func seconds(s float64) clock.Time { return clock.Time(s * 1e9) }

func (f *flight) step(name string, from, to float64) {
	f.w.Event(record.Event{At: seconds(from), Type: record.EventStepBegan, Name: name})
	f.w.Event(record.Event{At: seconds(to), Type: record.EventStepEnded, Name: name})
}

// pod stamps a pod's phases, in seconds after its creation; below 0: never.
func (f *flight) pod(group, name string, created, bound, running, ready float64) {
	id := f.w.Object(record.Object{Resource: "pods", Namespace: "ns-" + name, Name: name, Group: group})
	f.w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: seconds(created)})
	for _, p := range []struct {
		phase string
		after float64
	}{{record.PhaseBound, bound}, {record.PhaseRunning, running}, {record.PhaseReady, ready}} {
		if p.after >= 0 {
			f.w.Phase(record.Phase{Object: id, Phase: p.phase, At: seconds(created + p.after)})
		}
	}
}

// read reads the records, which were closed.
func (f *flight) read() *run.Run {
	f.t.Helper()
	facts := repotest.Must(run.Collect(f.path, f.r.Manifest))(f.t)
	f.r.Facts = facts
	return &f.r
}

func (f *flight) write() map[string]string {
	f.t.Helper()
	repotest.NoError(f.t, f.w.Close())
	folder := filepath.Join(f.t.TempDir(), "documents")
	names := repotest.Must(measurement.Write(folder, f.read(), f.j))(f.t)
	out := map[string]string{}
	for _, name := range names {
		raw := repotest.Must(os.ReadFile(filepath.Join(folder, name)))(f.t)
		if out[name] = string(raw); !json.Valid(raw) {
			f.t.Errorf("%s is not JSON: %s", name, raw)
		}
	}
	return out
}

func load(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	o := importer.Options{Env: environ.New([]string{"QPS=12.5", "DIRECTORY=out", "TEAM=blue"}, nil), UUID: "u-1", RunID: "r-1"}
	if name == "density" {
		o.Set = map[string]string{"FACTOR": "2", "EXTRA": "true"}
	}
	s, _, err := importer.Import("../testdata/"+name+".yml", o)
	repotest.NoError(t, err)
	return s
}

// TestGolden: the documents of an imported run, as files in testdata. A pod
// that was never ready, one of another group, and one whose watch was interrupted are
// in none.
func TestGolden(t *testing.T) {
	f := fly(t, load(t, "density"))
	f.step("density-cleanup-namespaces", 1, 2)
	f.step("density", 3, 20)
	for i := range 100 {
		f.pod("density", fmt.Sprintf("density-%d", i), 3+float64(i)/10, 0.004+float64(i)/1000, 0.5, 1+float64(i)/100)
	}
	f.pod("density", "stuck", 14, 0.1, -1, -1)
	f.pod("", "stranger", 14, 0.1, 0.2, 0.3)
	interrupted := f.w.Object(record.Object{Resource: "pods", Name: "interrupted", Group: "density"})
	for _, phase := range []string{record.PhaseCreated, record.PhaseUnknown, record.PhaseReady} {
		f.w.Phase(record.Phase{Object: interrupted, Phase: phase, At: seconds(15)})
	}
	f.step("density-pause", 20, 50.4)
	f.j = slo.Judgement{Verdict: slo.Fail, Reasons: []string{"One reason.", "Another."}}
	got := f.write()
	want := []string{"jobSummary.json", "podLatencyMeasurement-density.json", "podLatencyQuantilesMeasurement-density.json"}
	if len(got) != len(want) {
		t.Errorf("%d files: %v", len(got), got)
	}
	for _, name := range want {
		path := filepath.Join("testdata", name)
		repotest.Golden(t, path, got[name])
	}
}

// document is what tests look at.
type document struct {
	QuantileName, JobName, ExecutionErrors, UUID      string
	ChurnStartTimestamp, ChurnEndTimestamp, Timestamp string
	EndTimestamp                                      string
	ElapsedTime                                       float64
	Passed, ChurnMetric                               bool
	PodReadyLatency                                   *int64
	SchedulingLatency                                 *int64
	P99                                               int64
	Metadata                                          map[string]string
	JobConfig                                         struct {
		Name, JobType, Namespace              string
		JobIterations, IterationsPerNamespace int
		QPS                                   float64
		NamespacedIterations                  bool
	}
}

func readFacts(t *testing.T, text string) []document {
	t.Helper()
	var out []document
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// TestJobs: every job of a config has its summary, in its order and with its
// type; one that the run did not come to has none.
func TestJobs(t *testing.T) {
	f := fly(t, load(t, "selectors"))
	for i, steps := range [][2]string{
		{"base-namespaces", "base-verify-role"}, {"relabel", "relabel-ready-deployments-apps"}, {"in-turn-0", "in-turn-pause-2"},
		{"look-deployments-apps", "look-networkpolicies-networking-k8s-io"}, {"remove", ""},
	} {
		f.step(steps[0], float64(10*i), float64(10*i+1))
		if steps[1] != "" {
			f.step(steps[1], float64(10*i+1), float64(10*i+4))
		}
	}
	f.w.Event(record.Event{At: seconds(47), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Interrupted}})
	f.j = slo.Judgement{Verdict: slo.Unknown, Reasons: []string{"It was interrupted."}}
	var got []string
	for _, d := range readFacts(t, f.write()["jobSummary.json"]) {
		c := d.JobConfig
		got = append(got, fmt.Sprintf("%s %s %d %g %s %v %g s %s", c.Name, c.JobType, c.JobIterations, c.QPS, c.Namespace, d.Passed, d.ElapsedTime, d.ExecutionErrors))
	}
	want := []string{
		"base create 3 10 base false 4 s It was interrupted.", "relabel patch 5 4  false 4 s It was interrupted.",
		"in-turn patch 2 2  false 4 s It was interrupted.", "look read 10 100  false 4 s It was interrupted.",
		"remove delete 1 10  false 7 s It was interrupted.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestRoundsAndChurn: each round of an incremental load has quantiles of its
// own; pods made while a job churns are marked.
func TestRoundsAndChurn(t *testing.T) {
	f := fly(t, load(t, "rounds"))
	f.step("grow-round-1-namespaces", 1, 2)
	f.pod("grow-round-1", "a", 3, 0.1, 0.2, 0.25)
	f.pod("grow-round-2", "b", 5, 0.1, 0.2, 0.5)
	files := f.write()
	quantiles := readFacts(t, files["podLatencyQuantilesMeasurement-grow.json"])
	if len(quantiles) != 8 || quantiles[3].P99 != 250 || quantiles[7].P99 != 500 || quantiles[3].Metadata["incrementalLoadUUID"] == quantiles[7].Metadata["incrementalLoadUUID"] {
		t.Errorf("%d documents: %+v", len(quantiles), quantiles)
	}
	if _, ok := files["podLatencyMeasurement-staged.json"]; ok {
		t.Error("a job that never began has pods")
	}

	f = fly(t, load(t, "churn"))
	f.step("by-namespace-watchers-open", 1, 2)
	f.pod("by-namespace", "before", 3, 0.1, 0.2, 0.3)
	f.step("by-namespace-churn", 10, 20)
	f.pod("by-namespace", "within", 15, 0.1, -1, 0.3)
	files = f.write()
	pods := readFacts(t, files["podLatencyMeasurement-by-namespace.json"])
	if len(pods) != 2 || pods[0].ChurnMetric || !pods[1].ChurnMetric || *pods[1].PodReadyLatency != 300 {
		t.Errorf("%+v", pods)
	}
	summary := readFacts(t, files["jobSummary.json"])[0]
	if summary.ChurnStartTimestamp != "2026-09-14T10:00:10Z" || summary.ChurnEndTimestamp != "2026-09-14T10:00:20Z" || summary.ElapsedTime != 19 {
		t.Errorf("%+v", summary)
	}
	if c := summary.JobConfig; c.Namespace != "churned" || !c.NamespacedIterations || c.IterationsPerNamespace != 1 || c.JobIterations != 20 {
		t.Errorf("%+v", c)
	}
}

// TestNative: of a scenario that was not imported, each create step is a job.
func TestNative(t *testing.T) {
	s := repotest.Must(scenario.Parse("s.yaml", []byte(`
scenario: native
bodies: {pod: {text: "kind: Pod"}}
steps:
- {name: first, create: {body: pod, count: 3, pace: {constant: 5}}}
- {name: second, create: {body: pod, count: 4, group: g, pace: {burst: true}}}
`), nil))(t)
	f := fly(t, s)
	f.step("first", 1, 2)
	f.step("second", 2, 3)
	f.pod("first", "p", 1, 0.001, 0.002, 0.003)
	f.pod("g", "q", 2, 0.001, 0.002, 0.003)
	files := f.write()
	if len(files) != 5 {
		t.Errorf("%d files", len(files))
	}
	summaries := readFacts(t, files["jobSummary.json"])
	if len(summaries) != 2 || !summaries[0].Passed || summaries[1].JobConfig.JobIterations != 4 || len(summaries[0].UUID) != 36 {
		t.Errorf("%+v", summaries)
	}
	if d := readFacts(t, files["podLatencyMeasurement-second.json"]); len(d) != 1 || *d[0].SchedulingLatency != 1 || d[0].JobName != "second" {
		t.Errorf("%+v", d)
	}
}

func TestErrors(t *testing.T) {
	f := fly(t, load(t, "density"))
	f.step("density-cleanup-namespaces", 1, 2)
	repotest.NoError(t, f.w.Close())
	file := filepath.Join(t.TempDir(), "file")
	repotest.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := measurement.Write(file, f.read(), f.j); err == nil {
		t.Error("documents were written into a file")
	}
}
