package summary_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func at(seconds float64) clock.Time { return clock.Time(seconds * 1e9) }

// flight writes the records of a run from 10 s to 100 s.
func flight(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	event := func(s float64, what record.EventType, name string, d record.Detail) {
		w.Event(record.Event{At: at(s), Type: what, Name: name, Detail: d})
	}
	sample := func(s float64, target, name string, v float64, labels ...record.Label) {
		w.Sample(record.Sample{Series: w.Series(record.Series{Target: target, Name: name, Labels: labels}), At: at(s), Value: v})
	}
	histogram := func(s float64, target, family string, upTo map[string]float64, labels ...record.Label) {
		for le, n := range upTo {
			all := append([]record.Label{{Name: "le", Value: le}}, labels...)
			slices.SortFunc(all, func(a, b record.Label) int { return map[bool]int{true: -1, false: 1}[a.Name < b.Name] })
			sample(s, target, family+"_bucket", n, all...)
		}
	}
	list := []record.Label{{Name: "resource", Value: "pods"}, {Name: "scope", Value: "cluster"}, {Name: "subresource", Value: ""}, {Name: "verb", Value: "LIST"}}
	post := []record.Label{{Name: "resource", Value: "pods"}, {Name: "scope", Value: "resource"}, {Name: "subresource", Value: "binding"}, {Name: "verb", Value: "POST"}}
	const calls = "apiserver_request_sli_duration_seconds"
	for _, target := range []string{"kube-apiserver", "etcd"} {
		event(9, record.EventScraped, target, record.Detail{})
	}
	histogram(9, "kube-apiserver", calls, map[string]float64{"1": 0, "30": 0, "+Inf": 0}, list...)
	histogram(9, "kube-apiserver", calls, map[string]float64{"0.1": 5, "1": 10, "+Inf": 10}, post...)
	histogram(9, "etcd", "etcd_disk_wal_fsync_duration_seconds", map[string]float64{"0.001": 100, "+Inf": 100})
	event(10, record.EventRunBegan, "test", record.Detail{})
	event(10, record.EventStepBegan, "fill", record.Detail{})
	for i := range 100 {
		s := 20 + float64(i)/50
		id := w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "p", UID: "u", Group: "Saturation"})
		for phase, after := range map[string]float64{record.PhaseCreated: 0, record.PhaseBound: 0.25, record.PhaseRunning: 0.5 + float64(i)/100} {
			w.Phase(record.Phase{Object: id, Phase: phase, At: at(s + after)})
		}
	}
	for range 3 { // these never run: no percentile of their startup is known
		id := w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "q", UID: "v", Group: "stuck"})
		w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: at(30)})
		w.Phase(record.Phase{Object: id, Phase: record.PhaseBound, At: at(31)})
	}
	event(40, record.EventStepEnded, "fill", record.Detail{})
	for i := range 10 {
		s := 12 + float64(i)*9
		sample(s, "kube-apiserver", "process_cpu_seconds_total", float64(i*i))
		sample(s, "kube-apiserver", "process_resident_memory_bytes", 1e8+1e6*float64(i))
		sample(s, "windtunnel", "process_cpu_seconds_total", float64(i))
		sample(s, "windtunnel", "process_resident_memory_bytes", 5e7)
	}
	histogram(99, "kube-apiserver", calls, map[string]float64{"1": 90, "30": 98, "+Inf": 100}, list...)
	histogram(99, "kube-apiserver", calls, map[string]float64{"0.1": 204, "1": 209, "+Inf": 210}, post...)
	histogram(99, "etcd", "etcd_disk_wal_fsync_duration_seconds", map[string]float64{"0.001": 300, "+Inf": 350})
	sample(99, "etcd", "etcd_mvcc_db_total_size_in_bytes", 4096)
	for _, target := range []string{"kube-apiserver", "etcd"} {
		event(99, record.EventScraped, target, record.Detail{})
	}
	event(100, record.EventRunEnded, "last", record.Detail{Reason: record.Done})
	repotest.NoError(t, w.Close())
	return path
}

func flown(t *testing.T) (*run.Run, slo.Judgement) {
	t.Helper()
	facts := repotest.Must(run.Collect(flight(t), record.Manifest{}))(t)
	least, v := 1.0, 42.5
	s := &scenario.Scenario{
		Name: "density",
		Objectives: []scenario.Objective{
			{SLI: "pods-bound-rate", Statistic: "max", Min: &least, Labels: map[string]string{"group": "Saturation", "window": "1s"}},
			{Name: "Bindings: Max", Query: "max(x)", Max: &v},
			{Name: "APIResponsiveness: x", Query: "max(x)", Max: &v},
		},
		Measures: []scenario.Measure{{Name: "Filling", Since: "fill", Until: "fill"}, {Name: "never", Since: "none"}, {Name: "Bindings: All", Query: "sum(x)"}},
	}
	m := record.Manifest{Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Plane: record.PlaneFacts{Components: []record.ComponentFact{{Name: "kube-apiserver"}}}}
	r := &run.Run{Scenario: s, Manifest: m, Facts: facts}
	j := repotest.Must(slo.Judge(r))(t)
	// Queries are answered elsewhere; here are answers.
	j.Objectives = append(j.Objectives, slo.Result{Name: "Bindings: Max", Value: &v, Unit: "1/s", Labels: map[string]string{"code": "201"}},
		slo.Result{Name: "APIResponsiveness: x", Value: &v, Unit: "seconds"})
	j.Measures[slo.Key("Bindings: All")] = slo.Measure{Value: 7, Unit: "1/s"}
	return r, j
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	r, j := flown(t)
	names := repotest.Must(summary.Write(dir, r, j))(t)
	want := []string{
		"APIResponsivenessPrometheus_simple_density_2026-01-02T03:05:45Z.json",
		"EtcdMetrics_density_2026-01-02T03:05:45Z.json",
		"GenericPrometheusQuery Bindings_density_2026-01-02T03:05:45Z.json",
		"PodStartupLatency_Saturation_density_2026-01-02T03:05:45Z.json",
		"PodStartupLatency_stuck_density_2026-01-02T03:05:45Z.json",
		"ResourceUsageSummary_density_2026-01-02T03:05:45Z.json",
		"SchedulingThroughput_density_2026-01-02T03:05:45Z.json",
		"Timer_density_2026-01-02T03:05:45Z.json",
	}
	if !reflect.DeepEqual(names, want) {
		t.Fatalf("files %q", names)
	}
	for _, name := range names {
		got := repotest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		golden := filepath.Join("testdata", name[:len(name)-len("_density_2026-01-02T03:05:45Z.json")]+".golden.json")
		repotest.Golden(t, golden, got)
	}
}

// TestFiguresAreTheRecords compares some numbers with what the records must give.
func TestFiguresAreTheRecords(t *testing.T) {
	files := repotest.Must(summary.Files(flown(t)))(t)
	decode := func(name string, to any) {
		t.Helper()
		if err := json.Unmarshal(files[name+"_density_2026-01-02T03:05:45Z.json"], to); err != nil {
			t.Fatal(name, err)
		}
	}
	var startup, stuck, calls summary.Data
	decode("PodStartupLatency_Saturation", &startup)
	decode("PodStartupLatency_stuck", &stuck)
	decode("APIResponsivenessPrometheus_simple", &calls)
	find := func(d summary.Data, label, value string) summary.Item {
		i := slices.IndexFunc(d.Items, func(i summary.Item) bool { return i.Labels[label] == value })
		if i < 0 {
			return summary.Item{}
		}
		return d.Items[i]
	}
	// Nearest rank of 500, 510 ... 1490 ms.
	if got := find(startup, "Metric", "pod_startup"); got.Data["Perc50"] != 990 || got.Data["Perc90"] != 1390 || got.Data["Perc99"] != 1480 || got.Unit != "ms" || startup.Version != "1.0" {
		t.Errorf("pod_startup %+v", got)
	}
	if got := find(startup, "Metric", "create_to_schedule"); got.Data["Perc99"] != 250 {
		t.Errorf("create_to_schedule %+v", got)
	}
	if got := find(stuck, "Metric", "create_to_schedule"); got.Data["Perc99"] != 1000 {
		t.Errorf("create_to_schedule of those that never ran: %+v", got)
	}
	if got := find(stuck, "Metric", "pod_startup"); got.Data != nil {
		t.Errorf("pods that never ran have a startup time: %+v", got)
	}
	if got := find(calls, "Verb", "LIST"); got.Labels["Count"] != "100" || got.Labels["SlowCount"] != "2" || got.Labels["Scope"] != "cluster" {
		t.Errorf("lists %+v", got)
	}
	if got := find(calls, "Verb", "POST"); got.Labels["Count"] != "200" || got.Labels["SlowCount"] != "1" || got.Labels["Subresource"] != "binding" || got.Data["Perc50"] != 50.251256 {
		t.Errorf("bindings %+v", got)
	}
	var bound struct{ Perc50, Max float64 }
	decode("SchedulingThroughput", &bound)
	if bound.Max != 50 || bound.Perc50 != 38 {
		t.Errorf("throughput %+v", bound)
	}
	var usage map[string][]struct {
		Name string
		Cpu  float64
		Mem  uint64
	}
	decode("ResourceUsageSummary", &usage)
	if u := usage["100"]; len(u) != 1 || u[0].Name != "kube-apiserver/kube-apiserver" || u[0].Cpu != 1.888889 || u[0].Mem != 109e6 {
		t.Errorf("usage %+v", usage)
	}
}

// TestNothing: a run without records has no files, not files of zeros.
func TestNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	repotest.NoError(t, w.Close())
	facts := repotest.Must(run.Collect(path, record.Manifest{}))(t)
	s := &scenario.Scenario{Name: "empty"}
	r := &run.Run{Scenario: s, Facts: facts}
	j := repotest.Must(slo.Judge(r))(t)
	files, err := summary.Files(r, j)
	if err != nil || len(files) > 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
