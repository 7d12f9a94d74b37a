package slo_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

// flat writes a histogram's state: how many values lay up to each bound.
func (f *flight) flat(t float64, target, family string, counts map[float64]float64, sum float64, labels ...record.Label) {
	total := 0.0
	for le, n := range counts {
		f.sample(t, target, family+"_bucket", n, append(labels[:len(labels):len(labels)], record.Label{Name: "le", Value: strconv.FormatFloat(le, 'g', -1, 64)})...)
		total = max(total, n)
	}
	f.sample(t, target, family+"_bucket", total, append(labels[:len(labels):len(labels)], record.Label{Name: "le", Value: "+Inf"})...)
	f.sample(t, target, family+"_sum", sum, labels...)
	f.sample(t, target, family+"_count", total, labels...)
}

func (f *flight) scraped(target string, times ...float64) {
	for _, t := range times {
		f.event(t, record.EventScraped, target, "")
	}
}

func name(v string) record.Label { return record.Label{Name: "name", Value: v} }

// metrics writes one of each kind of indicator: the run lasts from 10 to 100.
func (f *flight) metrics() {
	const kcm, etcd, api = "kube-controller-manager", "etcd", "kube-apiserver"
	f.flat(9, etcd, "etcd_disk_wal_fsync_duration_seconds", map[float64]float64{0.001: 100, 0.002: 100, 0.004: 100}, 0.05)
	f.flat(90, etcd, "etcd_disk_wal_fsync_duration_seconds", map[float64]float64{0.001: 190, 0.002: 299, 0.004: 300}, 0.35)
	f.flat(9, etcd, "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", map[float64]float64{100: 0, 200: 0}, 0)
	f.flat(90, etcd, "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", map[float64]float64{100: 3, 200: 4}, 300)
	f.sample(9, etcd, "etcd_mvcc_db_total_size_in_bytes", 1e6)
	f.sample(50, etcd, "etcd_mvcc_db_total_size_in_bytes", 5e6)
	f.sample(52, etcd, "etcd_mvcc_db_total_size_in_bytes", 4e6)
	f.sample(9, etcd, "etcd_server_leader_changes_seen_total", 1)
	for i, depth := range [][2]float64{{0, 0}, {3, 4}, {8, 0}, {0, 0}} {
		t := []float64{9, 40, 60, 90}[i]
		f.sample(t, kcm, "workqueue_depth", depth[0], name("job"))
		f.sample(t, kcm, "workqueue_depth", depth[1], name("node"))
		f.sample(t, kcm, "workqueue_retries_total", float64(9*i), name("job"))
		f.sample(t, kcm, "go_memstats_alloc_bytes", 1e6*float64(i+1))
	}
	f.sample(9, kcm, "go_gc_duration_seconds_sum", 1)
	f.sample(9, kcm, "go_gc_duration_seconds_count", 100)
	f.sample(90, kcm, "go_gc_duration_seconds_sum", 1.5)
	f.sample(90, kcm, "go_gc_duration_seconds_count", 200)
	for code, n := range map[string]float64{"200": 900, "503": 90, "504": 10} {
		f.sample(9, api, "apiserver_request_total", 7, record.Label{Name: "code", Value: code}, record.Label{Name: "resource", Value: "pods"}, record.Label{Name: "verb", Value: "POST"})
		f.sample(90, api, "apiserver_request_total", 7+n, record.Label{Name: "code", Value: code}, record.Label{Name: "resource", Value: "pods"}, record.Label{Name: "verb", Value: "POST"})
	}
	f.sample(50, "windtunnel", "windtunnel_watch_lag_seconds", 0.02, record.Label{Name: "resource", Value: "pods"})
	f.sample(51, "windtunnel", "windtunnel_watch_lag_seconds", 0.3, record.Label{Name: "resource", Value: "pods"})
	for _, target := range []string{kcm, etcd, api} {
		f.scraped(target, 9, 40, 60, 90)
	}
}

func TestIndicators(t *testing.T) {
	max, min := func(v float64) (*float64, *float64) { return &v, nil }, func(v float64) (*float64, *float64) { return nil, &v }
	type bound func(float64) (*float64, *float64)
	for _, tt := range []struct {
		sli, statistic string
		labels         map[string]string
		bound          bound
		at             float64
		value          float64
		verdict        slo.Verdict
		samples        int
	}{
		{"etcd-fsync", "p99", nil, max, 0.002, 0.0019908, slo.Pass, 200},
		{"etcd-fsync", "p99", nil, max, 0.0015, 0.0019908, slo.Unknown, 200}, // inside the bucket
		{"etcd-fsync", "p99", nil, max, 0.001, 0.0019908, slo.Fail, 200},
		{"etcd-fsync", "max", nil, max, 0.002, 0.004, slo.Fail, 200},
		{"etcd-fsync", "mean", nil, max, 0.0015, 0.0015, slo.Pass, 200},
		{"etcd-fsync", "rate", nil, max, 2, 200.0 / 90, slo.Fail, 200},
		{"etcd-fsync", "sum", nil, max, 1, 0.3, slo.Pass, 200},
		{"etcd-compaction", "max", nil, max, 0.2, 0.2, slo.Pass, 4},
		{"etcd-size", "max", nil, max, 4.5e6, 5e6, slo.Fail, 3}, // between two scrapes
		{"etcd-size", "mean", nil, max, 4.5e6, 3e6, slo.Pass, 3},
		{"etcd-leader-changes", "sum", nil, max, 0, 0, slo.Pass, 3},
		{"workqueue-depth", "max", nil, max, 7, 8, slo.Fail, 3}, // both queues together: 7, 8, 0
		{"workqueue-depth", "max", map[string]string{"name": "node"}, max, 7, 4, slo.Pass, 3},
		{"workqueue-depth", "p50", nil, max, 7, 7, slo.Pass, 3},
		{"workqueue-retries", "rate", nil, max, 1, 0.3, slo.Pass, 3},
		{"workqueue-retries", "max", nil, max, 1, 9.0 / 20, slo.Pass, 2},
		{"workqueue-retries", "sum", nil, max, 26, 27, slo.Fail, 3},
		{"go-alloc", "max", nil, max, 4e6, 4e6, slo.Pass, 3},
		{"gc-pause", "mean", nil, max, 0.01, 0.005, slo.Pass, 100},
		{"gc-pause", "rate", nil, max, 1, 100.0 / 90, slo.Fail, 100},
		{"api-availability", "mean", nil, min, 0.95, 0.9, slo.Fail, 1000},
		{"api-availability", "mean", map[string]string{"verb": "create"}, min, 0.9, 0.9, slo.Pass, 1000},
		{"requests-by-server", "sum", nil, max, 1000, 1000, slo.Pass, 4},
		{"watch-latency", "max", nil, max, 0.1, 0.3, slo.Fail, 2},
		{"watch-latency", "p50", nil, max, 0.1, 0.02, slo.Pass, 2},
	} {
		f := newFlight(t)
		f.metrics()
		o := scenario.Objective{SLI: tt.sli, Statistic: tt.statistic, Labels: tt.labels, Name: "o"}
		o.Max, o.Min = tt.bound(tt.at)
		f.objective(o)
		f.end(record.Done)
		r := f.judge().Objectives[0]
		if r.Value == nil || math.Abs(*r.Value-tt.value) > 1e-6*(1+tt.value) || r.Verdict != tt.verdict || r.Samples != tt.samples {
			v := math.NaN()
			if r.Value != nil {
				v = *r.Value
			}
			t.Errorf("%s of %s %v: %v with %d samples is a %s %q, want %v with %d, %s", tt.statistic, tt.sli, tt.labels, v, r.Samples, r.Verdict, r.Warnings, tt.value, tt.samples, tt.verdict)
		}
	}
}

func TestIndicatorWithoutData(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "webhook-latency", Statistic: "p99", Name: "a", Max: new(1.0)})
	f.objective(scenario.Objective{SLI: "call-success", Statistic: "mean", Name: "b", Min: new(1.0)})
	f.objective(scenario.Objective{SLI: "namespace-deletion", Statistic: "p99", Name: "c", Max: new(1.0)})
	f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "p99", Name: "d", Max: new(1.0), Labels: map[string]string{"state": "stateful"}})
	f.objective(scenario.Objective{SLI: "etcd-fsync", Statistic: "p99", Name: "e", Max: new(1.0)})
	f.sample(9, "etcd", "etcd_disk_wal_fsync_duration_seconds_bucket", 9, record.Label{Name: "le", Value: "+Inf"}) // and no more of them
	f.end(record.Done)
	for _, r := range f.judge().Objectives {
		if r.Verdict != slo.Unknown || r.Value != nil || len(r.Warnings) == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestSplit(t *testing.T) {
	f := newFlight(t)
	f.metrics()
	f.calls(100)
	other := loadOp()
	other.Verb = "delete"
	f.call(other, 30, 0, 2, record.Failed)
	f.objective(scenario.Objective{SLI: "workqueue-retries", Per: []string{"name"}, Statistic: "sum", Name: "retries", Max: new(30.0)})
	f.objective(scenario.Objective{SLI: "call-latency", Per: []string{"verb", "resource"}, Statistic: "max", Name: "calls", Max: new(1.0)})
	f.objective(scenario.Objective{SLI: "call-success", Per: []string{"verb"}, Statistic: "mean", Name: "success", Min: new(1.0)})
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "sum", Name: "sum", Max: new(3.01)})
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "rate", Name: "rate", Min: new(2.0)})
	f.end(record.Done)
	j := f.judge()
	for _, tt := range []struct {
		name    string
		labels  map[string]string
		value   float64
		verdict slo.Verdict
	}{
		{"retries", map[string]string{"name": "job"}, 27, slo.Pass},
		{"calls", map[string]string{"verb": "create", "resource": "pods"}, 0.01, slo.Pass},
		{"calls", map[string]string{"verb": "delete", "resource": "pods"}, 2, slo.Fail},
		{"success", map[string]string{"verb": "create"}, 1, slo.Pass},
		{"success", map[string]string{"verb": "delete"}, 0, slo.Fail},
		{"sum", nil, 3, slo.Pass},
		{"rate", nil, 101.0 / 90, slo.Fail},
	} {
		r := find(t, j, tt.name, tt.labels)
		if r.Value == nil || math.Abs(*r.Value-tt.value) > 1e-6 || r.Verdict != tt.verdict {
			t.Errorf("%s %v: %+v", tt.name, tt.labels, r)
		}
	}
}

func TestStateOfPods(t *testing.T) {
	f := newFlight(t)
	f.sc.Steps = []scenario.Step{{Name: "web", Create: &scenario.Create{Group: "web"}}, {Name: "db", Create: &scenario.Create{Group: "db"}}}
	for step, resource := range map[string]string{"web": "deployments.apps", "db": "statefulsets.apps"} {
		f.call(record.Op{Source: "load", Step: step, Verb: "create", Resource: resource, Scope: "resource"}, 20, 0, 0.01, record.OK)
	}
	f.pods("web", 50, 1)
	f.pods("db", 30, 3)
	for _, state := range []string{"stateless", "stateful"} {
		f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "max", Name: state, Max: new(2.0), Labels: map[string]string{"state": state}})
	}
	f.end(record.Done)
	j := f.judge()
	if r := find(t, j, "stateless", nil); r.Samples != 50 || *r.Value != 1 {
		t.Errorf("%+v", r)
	}
	if r := find(t, j, "stateful", nil); r.Samples != 30 || *r.Value != 3 {
		t.Errorf("%+v", r)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	f := newFlight(t)
	for i := range 40 {
		id := f.w.Object(record.Object{Resource: "namespaces", Name: "n", UID: "u", Lifecycle: "namespace"})
		f.w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: at(20)})
		f.w.Phase(record.Phase{Object: id, Phase: record.PhaseDeleting, At: at(40)})
		f.w.Phase(record.Phase{Object: id, Phase: record.PhaseDeleted, At: at(41 + float64(i)/10)})
	}
	f.objective(scenario.Objective{SLI: "namespace-deletion", Statistic: "max", Name: "gone", Max: new(4.0)})
	f.end(record.Done)
	j := f.judge()
	if r := find(t, j, "gone", nil); r.Value == nil || math.Abs(*r.Value-4.9) > 1e-9 || r.Verdict != slo.Fail || r.Samples != 40 {
		t.Errorf("%+v", r)
	}
	if m := j.Measures["namespace_deletion_p50_seconds"]; math.Abs(m.Value-2.9) > 1e-9 {
		t.Errorf("%+v", m)
	}
}

func TestIndicatorMeasures(t *testing.T) {
	f := newFlight(t)
	f.metrics()
	f.usage()
	f.calls(100)
	f.end(record.Done)
	m := f.judge().Measures
	for key, want := range map[string]slo.Measure{
		"etcd_fsync_p99_seconds":                              {Value: 0.001990826, Unit: "seconds"},
		"workqueue_depth_max_items_kube_controller_manager":   {Value: 8, Unit: "items"},
		"workqueue_retries_sum_items_kube_controller_manager": {Value: 27, Unit: "items"},
		"api_availability_mean":                               {Value: 0.9, Unit: "ratio"},
		"call_success_mean":                                   {Value: 1, Unit: "ratio"},
		"cpu_rate_cores_etcd":                                 {Value: 0.111111111, Unit: "cores"},
		"gc_pause_rate_per_second_kube_controller_manager":    {Value: 1.111111111, Unit: "1/s"},
		"watch_latency_max_seconds":                           {Value: 0.3, Unit: "seconds"},
	} {
		if got := m[key]; math.Abs(got.Value-want.Value) > 1e-6 || got.Unit != want.Unit {
			t.Errorf("%s is %+v, want %+v", key, got, want)
		}
	}
	for key := range m {
		if strings.HasPrefix(key, "webhook") || strings.HasPrefix(key, "cpu_rate_cores_windtunnel") {
			t.Errorf("%s is a measure of nothing that was measured", key)
		}
	}
}

// TestIndicatorsInPromQL asks the same of Prometheus' engine: what windtunnel
// computes from the values that it read, an engine that extrapolates nearly
// finds, too.
func TestIndicatorsInPromQL(t *testing.T) {
	f := newFlight(t)
	f.metrics()
	f.end(record.Done)
	repotest.NoError(t, f.w.Close())
	store := repotest.Must(series.Read(filepath.Clean(f.path)))(t)
	db := repotest.Must(promql.Open(store, promql.Default(time.Unix(1e9, 0))))(t)
	for _, x := range sli.All() {
		for _, s := range x.Statistics {
			if expr := x.PromQL(s); expr != "" {
				if err := promql.Check(strings.ReplaceAll(expr, "%v", "90s")); err != nil {
					t.Errorf("%s: %v", x.Name, err)
				}
			}
		}
	}
	for name, want := range map[string]float64{"api-availability": 0.9, "gc-pause": 0.005, "go-alloc": 4e6, "workqueue-depth": 8} {
		x, _ := sli.Find(name)
		got, err := db.Instant(t.Context(), strings.ReplaceAll(x.PromQL(x.Statistics[0]), "%v", "90s"), at(99))
		if err != nil || len(got.Series) != 1 || math.Abs(got.Series[0].Points[0].Value-want) > 0.01*want {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, want)
		}
	}
}

// TestCountersWithoutSeries: a counter with labels has no series before it first
// rises. That its component was read is enough to know that it did not.
func TestCountersWithoutSeries(t *testing.T) {
	const kcm = "kube-controller-manager"
	for title, c := range map[string]struct {
		sli, statistic string
		labels         map[string]string
		scraped        []string
		cut            string
		verdict        slo.Verdict
	}{
		"the server was read":            {sli: "apf-rejected", statistic: "sum", scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"of one level":                   {sli: "apf-rejected", statistic: "max", labels: map[string]string{"priority_level": "system"}, scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"its requests":                   {sli: "watchers-ended", statistic: "rate", scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"of webhooks":                    {sli: "webhook-rejections", statistic: "sum", scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"of a level that there is not":   {sli: "apf-rejected", statistic: "max", labels: map[string]string{"priority_level": "sytem"}, scraped: []string{"kube-apiserver"}, verdict: slo.Unknown},
		"of a webhook that was called":   {sli: "webhook-rejections", statistic: "sum", labels: map[string]string{"name": "mine"}, scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"of a webhook that there is not": {sli: "webhook-rejections", statistic: "sum", labels: map[string]string{"name": "mien"}, scraped: []string{"kube-apiserver"}, verdict: slo.Unknown},
		"of a controller that counts":    {sli: "reconcile-errors", statistic: "sum", labels: map[string]string{"component": "operator", "controller": "widget"}, scraped: []string{"operator"}, verdict: slo.Pass},
		"of a controller unheard of":     {sli: "reconcile-errors", statistic: "sum", labels: map[string]string{"component": "operator", "controller": "wigdet"}, scraped: []string{"operator"}, verdict: slo.Unknown},
		"watches of a served resource":   {sli: "watchers-ended", statistic: "rate", labels: map[string]string{"resource": "widgets"}, scraped: []string{"kube-apiserver"}, verdict: slo.Pass},
		"watches of no resource":         {sli: "watchers-ended", statistic: "rate", labels: map[string]string{"resource": "wigdets"}, scraped: []string{"kube-apiserver"}, verdict: slo.Unknown},
		"of etcd":                        {sli: "etcd-slow-applies", statistic: "sum", scraped: []string{"etcd"}, verdict: slo.Pass},
		"of a named component":           {sli: "client-requests", statistic: "sum", labels: map[string]string{"component": kcm, "code": "429"}, scraped: []string{kcm}, verdict: slo.Pass},
		"another component was read":     {sli: "etcd-slow-applies", statistic: "sum", scraped: []string{"kube-apiserver", kcm}, verdict: slo.Unknown},
		"nothing was read":               {sli: "etcd-slow-applies", statistic: "sum", verdict: slo.Unknown},
		"the read was cut":               {sli: "apf-rejected", statistic: "sum", scraped: []string{"kube-apiserver"}, cut: "kube-apiserver", verdict: slo.Unknown},
		"whose it is is not known":       {sli: "reconcile-errors", statistic: "sum", scraped: []string{kcm}, verdict: slo.Unknown},
		"it is not scraped":              {sli: "cpu-throttled", statistic: "sum", labels: map[string]string{"component": kcm}, scraped: []string{kcm}, verdict: slo.Unknown},
		"a distribution of nothing":      {sli: "webhook-latency", statistic: "p99", scraped: []string{"kube-apiserver"}, verdict: slo.Unknown},
		"a share of nothing":             {sli: "api-availability", statistic: "mean", scraped: []string{"kube-apiserver"}, verdict: slo.Unknown},
		"of another kind of one counter": {sli: "scheduling-rate", statistic: "sum", scraped: []string{"kube-scheduler"}, verdict: slo.Pass},
	} {
		t.Run(title, func(t *testing.T) {
			f := newFlight(t)
			for _, target := range c.scraped {
				f.scraped(target, 9, 40, 90)
			}
			if c.cut != "" {
				f.event(50, record.EventCut, c.cut, "10")
			}
			f.sample(9, "kube-apiserver", "apiserver_flowcontrol_nominal_limit_seats", 30, record.Label{Name: "priority_level", Value: "system"})
			f.sample(9, "kube-apiserver", "apiserver_admission_webhook_request_total", 5, name("mine"))
			f.sample(9, "kube-apiserver", "apiserver_resource_objects", 5, record.Label{Name: "resource", Value: "widgets"})
			f.sample(9, "operator", "controller_runtime_max_concurrent_reconciles", 1, record.Label{Name: "controller", Value: "widget"})
			f.sample(9, "kube-scheduler", "scheduler_schedule_attempts_total", 0, record.Label{Name: "result", Value: "unschedulable"})
			f.sample(90, "kube-scheduler", "scheduler_schedule_attempts_total", 7, record.Label{Name: "result", Value: "unschedulable"})
			none := 0.0
			f.objective(scenario.Objective{SLI: c.sli, Statistic: c.statistic, Labels: c.labels, Name: "o", Max: &none})
			f.end(record.Done)
			r := f.judge().Objectives[0]
			if r.Verdict != c.verdict || (c.verdict == slo.Pass) != (r.Value != nil && *r.Value == 0 && r.Samples >= 2) {
				t.Errorf("%v, value %v, %d samples, %v", r.Verdict, r.Value, r.Samples, r.Warnings)
			}
		})
	}
}

// Of several API servers each has a result of its own: the least and the most loaded one are seen.
func TestRequestsByServer(t *testing.T) {
	f := newFlight(t)
	f.calls(100)
	for i, target := range []string{"kube-apiserver-0", "kube-apiserver-1", "kube-apiserver-2"} {
		f.sample(9, target, "apiserver_request_total", 5)
		f.sample(90, target, "apiserver_request_total", 5+float64(100*i))
		f.scraped(target, 9, 50, 90)
	}
	f.objective(scenario.Objective{SLI: "requests-by-server", Statistic: "sum", Max: new(150.0)})
	f.end(record.Done)
	var got []string
	for _, r := range f.judge().Objectives {
		if r.SLI == "requests-by-server" {
			got = append(got, fmt.Sprint(r.Labels["component"], " ", *r.Value, " ", r.Verdict))
		}
	}
	if text := strings.Join(got, ", "); text != "kube-apiserver-2 200 fail, kube-apiserver-1 100 pass, kube-apiserver-0 0 pass" {
		t.Error(text)
	}
}

// A label whose value nothing has is told with those that there are.
func TestLabelsThatNothingHas(t *testing.T) {
	for _, c := range []struct {
		sli, label, value, want string
	}{
		{"go-alloc", "component", "kube-controler-manager", "of component kube-controler-manager, but of kube-controller-manager"},
		{"workqueue-depth", "name", "jobs", "of name jobs, but of job, node"},
		{"workqueue-depth", "component", "operator", "of component operator, but of kube-controller-manager"},
		{"watchers-ended", "resource", "confgmaps", "nothing was read of the API server's apiserver_terminated_watchers_total of resource confgmaps, and nothing else of it either"},
		{"etcd-size", "component", "etcd-7", "of component etcd-7, but of etcd"},
	} {
		f := newFlight(t)
		f.objective(scenario.Objective{SLI: c.sli, Statistic: "max", Labels: map[string]string{c.label: c.value}, Max: new(1.0)})
		f.calls(1000)
		f.metrics()
		f.end(record.Done)
		if j := f.judge(); j.Verdict != slo.Unknown || !strings.Contains(strings.Join(j.Reasons, " "), c.want) {
			t.Errorf("%s of %s: verdict %s, reasons %q, want %q", c.sli, c.value, j.Verdict, j.Reasons, c.want)
		}
	}
}
