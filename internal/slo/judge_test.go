package slo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

// Every rule of the verdict of the whole.
func TestVerdictOfTheWhole(t *testing.T) {
	startup := scenario.Objective{SLI: "pod-startup", Statistic: "p99", Max: ptr(5)}
	for _, c := range []struct {
		name   string
		fly    func(*flight)
		want   slo.Verdict
		reason string // must be in the first reason; empty: no reason at all
	}{
		{"all is well", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 0.5)
			f.calls(1000)
			f.end(record.Done)
		}, slo.Pass, ""},
		{"slow pods", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.end(record.Done)
		}, slo.Fail, "p99 of pod-startup is 6 s, above its bound of 5 s"},
		{"nothing was measured", func(f *flight) {
			f.objective(startup)
			f.end(record.Done)
		}, slo.Unknown, "pod-startup is unknown: nothing was measured"},
		{"no objective", func(f *flight) { f.end(record.Done) }, slo.Unknown, "no objective"},
		{"one fails, one is unknown", func(f *flight) {
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Max: ptr(1)})
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.end(record.Done)
		}, slo.Fail, "pod-startup"},
		{"interrupted", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.end(record.Interrupted)
		}, slo.Unknown, "interrupted in step last"},
		{"a component died", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.event(60, record.EventDied, "kube-apiserver", "signal: killed\nlast log line")
			f.fails("", "kube-apiserver died: signal: killed")
		}, slo.Unknown, "kube-apiserver died during the run: signal: killed"},
		{"killed", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 0.5)
		}, slo.Unknown, "without its end: windtunnel was killed"},
		{"a step failed, objectives hold", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 0.5)
			f.fails("wait", "10 of 20 pods were running within 5m")
		}, slo.Unknown, "The run was stopped: step wait failed: 10 of 20"},
		{"a step failed, and so does an objective", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.fails("", "a wait")
		}, slo.Fail, "stopped in step last"},
		{"late calls", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			f.calls(970)
			for range 30 {
				f.call(loadOp(), 30, 0.2, 0.3, record.OK)
			}
			f.end(record.Done)
		}, slo.Unknown, "30 of the load's 1000 calls (3.0 %) were sent more than 100ms late"},
		{"a few late calls", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 0.5)
			f.calls(991)
			for range 9 {
				f.call(loadOp(), 30, 0.2, 0.3, record.OK)
			}
			f.end(record.Done)
		}, slo.Pass, ""},
		{"a slow fleet", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			for i := range 100 {
				f.call(record.Op{Source: "fleet", Verb: "patch", Resource: "pods", Subresource: "status"}, 30, float64(i)/20, 5, record.OK)
			}
			f.end(record.Done)
		}, slo.Unknown, "simulated nodes were too slow"},
		{"late renewals", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 6)
			for range 100 {
				f.call(record.Op{Source: "fleet", Verb: "update", Resource: "leases.coordination.k8s.io"}, 30, 11, 11.5, record.OK)
			}
			f.end(record.Done)
		}, slo.Unknown, "renewed their leases too late"},
		{"renewals late within a quarter of the lease", func(f *flight) {
			f.objective(startup)
			f.pods("g", 1000, 0.5)
			for range 100 {
				f.call(record.Op{Source: "fleet", Verb: "update", Resource: "leases.coordination.k8s.io"}, 30, 9, 9.5, record.OK)
			}
			f.end(record.Done)
		}, slo.Pass, ""},
		{"an SLI of a later version", func(f *flight) {
			f.objective(scenario.Objective{SLI: "phase-of-the-moon", Statistic: "p99", Max: ptr(1)})
			f.end(record.Done)
		}, slo.Unknown, "does not know the SLI"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			c.fly(f)
			j := f.judge()
			if j.Verdict != c.want {
				t.Errorf("verdict = %s, want %s; reasons %q", j.Verdict, c.want, j.Reasons)
			}
			if c.reason == "" && len(j.Reasons) > 0 {
				t.Errorf("reasons = %q, want none", j.Reasons)
			}
			if c.reason != "" && (len(j.Reasons) == 0 || !strings.Contains(j.Reasons[0], c.reason)) {
				t.Errorf("reasons = %q, want the first to say %q", j.Reasons, c.reason)
			}
		})
	}
}

// A late fleet before the run's begin (it makes thousands of nodes then) does
// not spoil the run.
func TestOnlyTheRunIsJudged(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "max", Max: ptr(1)})
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

// A torn stream is judged up to where it ends, and never passes.
func TestTornStream(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Max: ptr(1)})
	f.calls(1000)
	f.event(40, record.EventStepEnded, "fill", "")
	f.calls(1000)
	f.end(record.Done)
	if err := f.w.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.wt")
	if err := os.WriteFile(cut, raw[:len(raw)-60], 0o600); err != nil {
		t.Fatal(err)
	}
	j := judge(t, cut, &f.sc, f.m)
	if j.Verdict != slo.Unknown || j.Objectives[0].Verdict != slo.Pass || j.Objectives[0].Samples < 1000 {
		t.Errorf("verdict %s, objective %+v", j.Verdict, j.Objectives[0])
	}
	if len(j.Reasons) != 1 || !strings.Contains(j.Reasons[0], "without its end") {
		t.Errorf("reasons = %q", j.Reasons)
	}
}
