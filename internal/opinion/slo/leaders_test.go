package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// etcd has no leader from 50.1..50.2 to 51.6..51.7 s, its scheduler one throughout.
func TestTimeWithoutLeader(t *testing.T) {
	for _, c := range []struct {
		statistic string
		max       float64
		component string
		want      slo.Verdict
		value     float64
	}{
		{"max", 2, "etcd", slo.Pass, 1.5},
		{"max", 1.5, "etcd", slo.Unknown, 1.5}, // it lies between 1.4 and 1.6
		{"max", 1.4, "etcd", slo.Unknown, 1.5},
		{"max", 1, "etcd", slo.Fail, 1.5},
		{"sum", 2, "etcd", slo.Pass, 1.5},
		{"count", 1, "etcd", slo.Pass, 1},
		{"count", 0, "etcd", slo.Fail, 1},
		{"max", 0, "kube-scheduler", slo.Pass, 0},
		{"max", 9, "kube-controller-manager", slo.Unknown, 0}, // there is one
	} {
		f := newFlight(t)
		f.calls(100)
		for target, at := range map[string][]struct {
			t, v float64
		}{
			"etcd-0":           {{9, 1}, {50.1, 1}, {50.2, 0}, {100, 0}},
			"etcd-1":           {{9, 0}, {51.6, 0}, {51.7, 1}, {100, 1}},
			"etcd-2":           {{9, 0}, {100, 0}},
			"kube-scheduler-0": {{9, 1}, {100, 1}},
			"kube-scheduler-1": {{9, 0}, {100, 0}},
		} {
			for _, s := range at {
				f.sample(s.t, target, run.LeaderSeries, s.v)
			}
		}
		r := f.statistic("time-without-leader", c.statistic, c.max, map[string]string{"component": c.component})
		if r.Verdict != c.want || c.component != "kube-controller-manager" && (r.Value == nil || *r.Value < c.value-1e-6 || *r.Value > c.value+1e-6) {
			t.Errorf("%s of %s, at most %v: %+v", c.statistic, c.component, c.max, r)
		}
	}
}

// Without a component there is one result for each that elects a leader.
func TestTimeWithoutLeaderOfEach(t *testing.T) {
	f := newFlight(t)
	f.calls(100)
	for _, target := range []string{"etcd-0", "kube-scheduler-1"} {
		f.sample(9, target, run.LeaderSeries, 1)
		f.sample(100, target, run.LeaderSeries, 1)
	}
	f.objective(scenario.Objective{SLI: "time-without-leader", Statistic: "max", Max: new(1.0)})
	f.end(record.Done)
	var got []string
	for _, r := range f.judge().Objectives {
		if r.SLI == "time-without-leader" {
			got = append(got, r.Labels["component"]+" "+string(r.Verdict))
		}
	}
	if text := strings.Join(got, ", "); text != "etcd pass, kube-scheduler pass" {
		t.Error(text)
	}
}
