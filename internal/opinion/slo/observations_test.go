package slo_test

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// statistic judges one statistic of an indicator, whose most is a bound.
func (f *flight) statistic(sli, statistic string, most float64, labels map[string]string) slo.Result {
	f.t.Helper()
	f.objective(scenario.Objective{SLI: sli, Statistic: statistic, Labels: labels, Name: "o", Max: new(most)})
	f.end(record.Done)
	return f.judge().Objectives[0]
}

func wants(t *testing.T, what string, r slo.Result, value float64, samples int) {
	t.Helper()
	if r.Value == nil {
		t.Errorf("%s: nothing, %q; want %v", what, r.Warnings, value)
	} else if math.Abs(*r.Value-value) > 1e-6*(1+value) || r.Samples != samples {
		t.Errorf("%s: %v of %d samples, want %v of %d", what, *r.Value, r.Samples, value, samples)
	}
}

// TestNoLookIsUnknown: a target that was read before the run only passes
// nothing, whatever was read of it then.
func TestNoLookIsUnknown(t *testing.T) {
	for _, tt := range []struct {
		sli, statistic, family string
		scrapes                []float64
		want                   slo.Verdict
	}{
		{"etcd-leader-changes", "sum", "etcd_server_leader_changes_seen_total", []float64{9}, slo.Unknown},
		{"etcd-leader-changes", "rate", "etcd_server_leader_changes_seen_total", []float64{9}, slo.Unknown},
		{"etcd-leader-changes", "sum", "etcd_server_leader_changes_seen_total", []float64{9, 101}, slo.Unknown},
		{"etcd-leader-changes", "sum", "etcd_server_leader_changes_seen_total", []float64{9, 50}, slo.Pass},
		{"etcd-size", "max", "etcd_mvcc_db_total_size_in_bytes", []float64{9}, slo.Unknown},
		{"etcd-size", "mean", "etcd_mvcc_db_total_size_in_bytes", []float64{9}, slo.Unknown},
		{"etcd-size", "max", "etcd_mvcc_db_total_size_in_bytes", []float64{9, 50}, slo.Pass},
		{"etcd-size", "max", "etcd_mvcc_db_total_size_in_bytes", nil, slo.Unknown},
	} {
		f := newFlight(t)
		f.sample(9, "etcd", tt.family, 1)
		for _, at := range []float64{20, 50, 90} { // its process is looked at all the time
			f.sample(at, "etcd", "process_cpu_seconds_total", at)
		}
		if tt.scrapes == nil { // nor was it then
			f = newFlight(t)
			f.sample(9, "etcd", tt.family, 1)
		}
		f.scraped("etcd", tt.scrapes...)
		if r := f.statistic(tt.sli, tt.statistic, 5, nil); r.Verdict != tt.want {
			t.Errorf("%s of %s, scraped at %v: %s of %d samples %q, want %s", tt.statistic, tt.sli, tt.scrapes, r.Verdict, r.Samples, r.Warnings, tt.want)
		}
	}
	// One look shows no rise.
	f := newFlight(t)
	f.sample(50, "etcd", "etcd_server_leader_changes_seen_total", 1)
	f.scraped("etcd", 50)
	if r := f.statistic("etcd-leader-changes", "sum", 5, nil); r.Verdict != slo.Unknown {
		t.Errorf("%+v", r)
	}
}

// TestUnscrapedGaugeIsOverTime: samples are written when a value changes, and a
// value counts for as long as it lasted.
func TestUnscrapedGaugeIsOverTime(t *testing.T) {
	for statistic, want := range map[string]float64{"p50": 0, "p90": 0, "mean": 0.3 * 2 / 81, "p99": 0.3, "max": 0.3} {
		f := newFlight(t)
		lag := record.Label{Name: "resource", Value: "pods"}
		for i := range 81 { // its own process is sampled each second
			f.sample(15+float64(i), "windtunnel", "process_cpu_seconds_total", float64(i))
		}
		f.sample(15, "windtunnel", "windtunnel_watch_lag_seconds", 0, lag)
		f.sample(50, "windtunnel", "windtunnel_watch_lag_seconds", 0.2, lag)
		f.sample(50, "windtunnel", "windtunnel_watch_lag_seconds", 0.3, lag)
		f.sample(52, "windtunnel", "windtunnel_watch_lag_seconds", 0, lag)
		wants(t, statistic, f.statistic("watch-latency", statistic, 1, nil), want, 81)
	}
	// The most is not missed between two looks.
	f := newFlight(t)
	f.sample(20, "subject", "process_resident_memory_bytes", 1e6)
	f.sample(20.4, "subject", "process_resident_memory_bytes", 9e6)
	f.sample(20.6, "subject", "process_resident_memory_bytes", 1e6)
	f.sample(30.1, "subject", "process_resident_memory_bytes", 2e6)
	wants(t, "memory", f.statistic("resident-memory", "max", 1e6, map[string]string{"component": "subject"}), 9e6, 11)
}

// TestPromptWatchPasses: a lag of 0 that was written once is known to hold for
// as long as windtunnel was looked at, and no lag at all is not one of 0.
func TestPromptWatchPasses(t *testing.T) {
	for _, known := range []bool{true, false} {
		f := newFlight(t)
		f.sample(9, "windtunnel", "process_cpu_seconds_total", 1)
		f.sample(99, "windtunnel", "process_cpu_seconds_total", 2)
		if known {
			f.sample(9, "windtunnel", "windtunnel_watch_lag_seconds", 0, record.Label{Name: "resource", Value: "pods"})
		}
		f.objective(scenario.Objective{SLI: "watch-latency", Statistic: "p99", Name: "o", Max: new(0.1)})
		f.end(record.Done)
		j := f.judge()
		want := slo.Unknown
		if known {
			want = slo.Pass
		}
		self := j.Self
		if j.Objectives[0].Verdict != want || (self.WatchLagP99Seconds != nil) != known || (self.WatchLagMaxSeconds != nil) != known {
			t.Errorf("known %v: %+v, lag %v", known, j.Objectives[0], self.WatchLagP99Seconds)
		}
	}
}

// TestRatesOfSeveralTargets: two components that each work off 10 items a
// second are 20 a second, whenever each of them is scraped.
func TestRatesOfSeveralTargets(t *testing.T) {
	for _, apart := range []float64{0, 0.005, 0.5, 2.5} {
		for _, statistic := range []string{"max", "p50", "p90"} {
			f := newFlight(t)
			for i := range 10 {
				for target, at := range map[string]float64{"a": 12 + 5*float64(i), "b": 12 + 5*float64(i) + apart} {
					f.sample(at, target, "reconciliations", 10*at)
					f.sample(at, target, "workqueue_adds_total", 10*at, name("q"))
					f.scraped(target, at)
				}
			}
			f.objective(scenario.Objective{SLI: "workqueue-adds", Per: []string{"name"}, Statistic: statistic, Name: "o", Max: new(20.5)})
			f.end(record.Done)
			wants(t, statistic, f.judge().Objectives[0], 20, 9)
		}
	}
}

// TestUnscrapedRate: looks at even distances do not see now none and now two
// of the samples between which a counter rose evenly.
func TestUnscrapedRate(t *testing.T) {
	f := newFlight(t)
	for i := range 60 {
		at := 20.0 + 1.03*float64(i)
		f.sample(at, "subject", "process_cpu_seconds_total", at/2)
	}
	wants(t, "cpu", f.statistic("cpu", "max", 0.6, map[string]string{"component": "subject"}), 0.5, 60)
}

// TestWhatIsNoLongerServedDoesNotCount: after a restart a queue that is not
// served any more has no depth.
func TestWhatIsNoLongerServedDoesNotCount(t *testing.T) {
	for statistic, want := range map[string]float64{"max": 9, "p50": 2} {
		f := newFlight(t)
		const kcm = "kube-controller-manager"
		old := f.w.Define(record.Series{Target: kcm, Name: "workqueue_depth", Labels: []record.Label{name("old")}})
		now := f.w.Define(record.Series{Target: kcm, Name: "workqueue_depth", Labels: []record.Label{name("new")}})
		for i := range 10 {
			s := record.Scrape{Target: kcm, At: at(20 + 5*float64(i))}
			switch i {
			case 0:
				s.Values = []record.Value{{Series: old, Value: 7}}
			case 2:
				s.Gone = []record.SeriesID{old}
				s.Values = []record.Value{{Series: now, Value: 2}}
			case 9: // it is back
				s.Values = []record.Value{{Series: old, Value: 7}}
			}
			f.w.Scrape(&s)
			f.scraped(kcm, 20+5*float64(i))
		}
		wants(t, statistic, f.statistic("workqueue-depth", statistic, 100, nil), want, 10)
	}
}
