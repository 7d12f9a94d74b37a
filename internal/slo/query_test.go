package slo_test

import (
	"errors"
	"math"
	"slices"
	"testing"

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
	f.end(record.Done)
	facts, err := slo.Collect(f.path)
	if err != nil {
		t.Fatal(err)
	}
	var questions []slo.Question
	facts.Ask(&f.sc, func(q slo.Question) slo.Answer {
		questions = append(questions, q)
		switch q.Expr {
		case "sum by (verb) (rate(x[30s]))":
			return slo.Answer{Values: []slo.Value{
				{Labels: []record.Label{{Name: "verb", Value: "GET"}}, Value: 1.5},
				{Labels: []record.Label{{Name: "verb", Value: "POST"}}, Value: 2.5},
			}}
		case "sum(x)":
			return slo.Answer{Values: []slo.Value{{Value: 42}}}
		case "broken(":
			return slo.Answer{Err: errors.New("parse error")}
		case "0/0":
			return slo.Answer{Values: []slo.Value{{Value: math.NaN()}}}
		}
		return slo.Answer{}
	})
	if len(questions) != 5 || questions[0].At != at(50.4) {
		t.Fatalf("asked %v", questions)
	}
	j := slo.Judge(&f.sc, f.m, facts)
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
	if m := j.Measures[slo.Key("whole run")]; m != (slo.Measure{Value: 42, Unit: "calls", Own: true, Better: "lower"}) {
		t.Errorf("measures %v", j.Measures)
	}
}
