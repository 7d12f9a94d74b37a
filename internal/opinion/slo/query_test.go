package slo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
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
	f.sc.Measures = []scenario.Measure{{Name: "whole run", Query: "sum(x)", Unit: "calls", Better: "lower"}, {Name: "nobody counts", Query: "absent_metric", Optional: true}}
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

// TestMeasuresWithoutAnAnswer: what the scenario itself measures has a value, or the
// verdict is unknown, unless the measure is optional. A run that was cut short is
// unknown for that alone.
func TestMeasuresWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		measure scenario.Measure
		ended   record.EndReason
		want    slo.Verdict
		unmet   string
	}{
		{"answered", scenario.Measure{Name: "m", Query: "sum(x)"}, record.Done, slo.Pass, "[]"},
		{"no series", scenario.Measure{Name: "m", Query: "absent_metric"}, record.Done, slo.Unknown, "[{measure m not-measured its query had no answer}]"},
		{"no number", scenario.Measure{Name: "m", Query: "0 * sum(x) / 0"}, record.Done, slo.Unknown, "[{measure m not-measured its query had no answer}]"},
		{"optional", scenario.Measure{Name: "m", Query: "absent_metric", Optional: true}, record.Done, slo.Pass, "[]"},
		{"cut short", scenario.Measure{Name: "m", Query: "absent_metric"}, record.Interrupted, slo.Unknown, "[]"},
	} {
		f := newFlight(t)
		f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Max: new(1.0)})
		f.calls(1000)
		f.sc.Measures = []scenario.Measure{c.measure}
		for at := 9.0; at < 100; at++ {
			f.sample(at, "kube-apiserver", "x", at)
		}
		f.end(c.ended)
		f.m.Started = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		if j := f.judge(); j.Verdict != c.want || fmt.Sprint(j.Unmet) != c.unmet {
			t.Errorf("%s: %s %v, want %s %s; reasons %q", c.name, j.Verdict, j.Unmet, c.want, c.unmet, j.Reasons)
		}
	}
}
