package slo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// A late fleet before the run's begin (it makes thousands of nodes then) does
// not spoil the run.
func TestOnlyTheRunIsJudged(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "max", Max: new(1.0)})
	f.calls(100)
	f.end(record.Done)
	f.call(loadOp(), 200, 0, 50, record.OK) // cleaning up
	f.pod("g", "created", 201.0)
	j := f.judge()
	if j.Verdict != slo.Pass || j.Measures["calls_total"].Value != 100 {
		t.Errorf("verdict %s, %v calls; want what follows the run's end left out", j.Verdict, j.Measures["calls_total"])
	}
	if _, ok := j.Measures["pods_created"]; ok {
		t.Error("a pod of after the run's end was counted")
	}
}

// A stream that was cut is judged up to where it ends, and never passes.
func TestTornStream(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Max: new(1.0)})
	f.calls(1000)
	f.event(40, record.EventStepEnded, "fill", "")
	f.calls(1000)
	f.end(record.Done)
	repotest.NoError(t, f.w.Close())
	raw := repotest.Must(os.ReadFile(f.path))(t)
	cut := filepath.Join(t.TempDir(), "cut.wt")
	repotest.NoError(t, os.WriteFile(cut, raw[:len(raw)-60], 0o600))
	j := judge(t, cut, &f.sc, f.m)
	if j.Verdict != slo.Unknown || j.Objectives[0].Verdict != slo.Pass || j.Objectives[0].Samples < 1000 {
		t.Errorf("verdict %s, objective %+v", j.Verdict, j.Objectives[0])
	}
	if len(j.Reasons) != 1 || !strings.Contains(j.Reasons[0], "without its end") {
		t.Errorf("reasons = %q", j.Reasons)
	}
}
