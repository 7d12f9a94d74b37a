package slo_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestObjectivesOfAStep judges a counter that rises by 9 a scrape before a step, and
// by 1 within it, and calls of two steps.
func TestObjectivesOfAStep(t *testing.T) {
	f := newFlight(t)
	name := record.Label{Name: "name", Value: "job"}
	for i := range 10 {
		at, value := 15+5*float64(i), 9*float64(min(i, 5))+float64(max(0, i-5))
		f.scrape(at)
		f.sample(at, "kube-controller-manager", "workqueue_retries_total", value, name)
	}
	f.event(41, record.EventStepBegan, "calm", "")
	f.event(61, record.EventStepEnded, "calm", "")
	f.event(62, record.EventStepBegan, "cut", "")
	calm := loadOp()
	calm.Step = "calm"
	for range 100 {
		f.call(loadOp(), 20, 0, 3, record.OK)
		f.call(calm, 45, 0, 0.1, record.OK)
	}
	retries := scenario.Objective{SLI: "workqueue-retries", Statistic: "sum", Name: "all", Max: new(5.0)}
	f.objective(retries)
	retries.Name, retries.Step = "retries", "calm"
	f.objective(retries)
	retries.Name, retries.Step = "never", "cut"
	f.objective(retries)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Step: "calm", Name: "calls", Max: new(1.0)})
	f.end(record.Done)
	j := f.judge()
	for _, tt := range []struct {
		name    string
		labels  map[string]string
		verdict slo.Verdict
	}{
		{"all", nil, slo.Fail}, {"retries", map[string]string{"step": "calm"}, slo.Pass},
		{"never", map[string]string{"step": "cut"}, slo.Unknown}, {"calls", map[string]string{"step": "calm"}, slo.Pass},
	} {
		found := false
		for _, r := range j.Objectives {
			if r.Name == tt.name {
				if found = true; r.Verdict != tt.verdict || r.Labels["step"] != tt.labels["step"] {
					t.Errorf("%s: %+v", tt.name, r)
				}
			}
		}
		if !found {
			t.Errorf("%s is not judged: %+v", tt.name, j.Objectives)
		}
	}
}

// TestAbortedRun has a run ended by what its scenario calls abortOn: that fails it.
func TestAbortedRun(t *testing.T) {
	for _, reason := range []record.EndReason{record.Done, record.Aborted} {
		f := newFlight(t)
		f.sc.AbortOn = &scenario.AbortOn{FailedCalls: 5}
		f.calls(100)
		f.ends(record.Detail{Reason: reason}, "stopped by abortOn: 5 calls failed (failedCalls: 5)")
		j := f.judge()
		want := map[record.EndReason]slo.Verdict{record.Done: slo.Pass, record.Aborted: slo.Fail}[reason]
		if j.Verdict != want || reason == record.Aborted && j.Reasons[0] != "ended early by abortOn: stopped by abortOn: 5 calls failed (failedCalls: 5)." {
			t.Errorf("%s: verdict %s, reasons %q", reason, j.Verdict, j.Reasons)
		}
	}
}
