package slo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestQueries(t *testing.T) {
	f := newFlight(t)
	f.event(20, record.EventStepBegan, "load", "")
	f.event(50.4, record.EventStepEnded, "load", "")
	limit := 2.0
	f.sc.Objectives = []scenario.Objective{
		{Name: "two series", Query: `sum by (verb) (rate(x[%v]))`, Since: "load", Until: "load", Max: &limit, Unit: "1/s"},
		{Name: "nothing", Query: "absent_metric", Max: &limit},
		{Name: "wrong", Query: "broken(", Max: &limit},
		{Name: "never", Query: "x", Until: "no-such-step", Max: &limit},
		{Name: "empty", Query: "0/0", Max: &limit},
	}
	f.sc.Measures = []scenario.Measure{{Name: "whole run", Query: "sum(x)", Unit: "calls", Better: "lower"}, {Name: "nobody counts", Query: "absent_metric"}}
	for at := 9.0; at < 100; at++ { // counters that rise by 1.5 and 2.5 a second
		f.sample(at, "kube-apiserver", "x", 1.5*at, record.Label{Name: "verb", Value: "GET"})
		f.sample(at, "kube-apiserver", "x", 2.5*at, record.Label{Name: "verb", Value: "POST"})
	}
	f.end(record.Done)
	f.m.Started = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	j := f.judge()
	got := map[string]slo.Verdict{}
	for _, r := range j.Objectives {
		got[r.Name+r.Labels["verb"]] = r.Verdict
	}
	for name, want := range map[string]slo.Verdict{
		"two seriesGET": slo.Pass, "two seriesPOST": slo.Fail, "nothing": slo.Unknown, "wrong": slo.Unknown, "never": slo.Unknown, "empty": slo.Unknown,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if want := "Without a value, because their queries had no answer: nobody counts."; !slices.Contains(j.Reasons, want) {
		t.Errorf("no %q in %q", want, j.Reasons)
	}
	if m := j.Measures[slo.Key("whole run")]; m != (slo.Measure{Value: 4 * 99, Unit: "calls", Own: true, Better: "lower"}) {
		t.Errorf("measures %v", j.Measures)
	}
}
