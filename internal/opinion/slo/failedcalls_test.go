package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// refuse has n calls of an operation answered with a status.
func (f *flight) refuse(op record.Op, n int, code uint16, c record.Call) {
	c.Op, c.Due, c.Sent, c.Done, c.Code, c.Outcome = f.w.Op(op), at(30), at(30), at(30.1), code, record.Failed
	if code == 0 {
		c.Outcome = record.Unknown
	}
	for range n {
		f.w.Call(c)
	}
}

// tell has the load describe how calls failed.
func (f *flight) tell(op record.Op, code, count int, reason, message string) {
	f.w.Event(record.Event{At: at(31), Type: record.EventCallsFailed, Name: op.Step, Text: message, Detail: record.Detail{Failure: &record.Failure{
		Verb: op.Verb, Resource: op.Resource, Code: code, Reason: reason, Object: "n/a-0", Count: count}}})
}

// TestFailedCalls judges runs whose own objective is met by all of them.
func TestFailedCalls(t *testing.T) {
	other := loadOp()
	other.Step, other.Verb = "away", "delete"
	for _, c := range []struct {
		name   string
		fly    func(*flight)
		want   slo.Verdict
		reason string // begin of the first
	}{
		{"none", func(f *flight) {}, slo.Pass, ""},
		{"refused, all of them", func(f *flight) {
			f.refuse(other, 20, 422, record.Call{})
			f.tell(other, 422, 1, "Invalid", "spec.size is wrong")
		}, slo.Fail, "failed calls of the load: 20 of 1,020 failed for good, where at most 0 may: 20 of step away, delete pods: 422 Invalid: spec.size is wrong (n/a-0)."},
		{"any number of failures is allowed by an objective, which bounds successes", func(f *flight) {
			f.objective(scenario.Objective{SLI: "call-success", Statistic: "mean", Max: new(1.0)})
			f.objective(scenario.Objective{SLI: slo.FailedCalls, Statistic: "count", Min: new(0.0)})
			f.refuse(other, 20, 422, record.Call{})
		}, slo.Fail, "failed calls of the load: 20 of 1,020 failed for good"},
		{"refused, on a slow instrument", func(f *flight) {
			f.refuse(other, 1, 403, record.Call{})
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Fail, "failed calls of the load: 1 of 1,501 failed for good, where at most 0 may: 1 of step away, delete pods: 403."},
		{"too many, on a slow instrument", func(f *flight) {
			f.refuse(other, 1, 429, record.Call{})
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Unknown, ""},
		{"no room in the store, on a slow instrument", func(f *flight) {
			f.refuse(other, 3, 500, record.Call{})
			f.tell(other, 500, 3, "", "etcdserver: mvcc: database space exceeded")
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Fail, "failed calls of the load: 3 of 1,503"},
		{"timed out inside, on a slow instrument", func(f *flight) {
			f.refuse(other, 3, 500, record.Call{})
			f.tell(other, 500, 3, "", "etcdserver: request timed out")
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Unknown, ""},
		{"a webhook that never answers, on a slow instrument", func(f *flight) {
			f.refuse(other, 240, 500, record.Call{})
			f.tell(other, 500, 240, "InternalError", `failed calling webhook "a.b": context deadline exceeded`)
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Fail, "failed calls of the load: 240 of 1,740"},
		{"a share of the scenario's own, on a slow instrument", func(f *flight) {
			f.objective(scenario.Objective{SLI: "call-success", Statistic: "mean", Labels: map[string]string{"step": "away"}, Min: new(0.99)})
			f.refuse(other, 2, 422, record.Call{})
			for range 500 {
				f.call(loadOp(), 40, 3, 4, record.OK)
			}
		}, slo.Fail, ""},
		{"no answer", func(f *flight) { f.refuse(other, 2, 0, record.Call{}) }, slo.Unknown, "failed calls of the load: 2 of 1,002 failed for good, where at most 0 may: 2 calls had no answer, and may have been done"},
		{"sent again", func(f *flight) { f.refuse(other, 2, 429, record.Call{Again: true}) }, slo.Pass, "2 of the load's 1002 calls failed."},
		{"sent again in vain", func(f *flight) { f.refuse(other, 2, 429, record.Call{Attempt: 3}) }, slo.Fail, "failed calls of the load: 2 of 1,002"},
		{"the first attempt had deleted it", func(f *flight) { f.refuse(other, 2, 404, record.Call{Attempt: 1, Reached: true}) }, slo.Pass, "2 of the load's 1002 calls failed."},
		{"as the step expects", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: "away", Expects: []int{404, 0}}}
			f.did("away")
			f.refuse(other, 2, 404, record.Call{})
			f.refuse(other, 2, 0, record.Call{})
		}, slo.Pass, "2 of the load's 1004 calls failed. 2 of the load's 1004 calls had no answer."},
		{"another step expects it", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: "fill", Expects: []int{404}}}
			f.refuse(other, 2, 404, record.Call{})
		}, slo.Fail, "failed calls of the load: 2 of 1,002"},
		{"nothing is refused where that is expected", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: loadOp().Step, Expects: []int{403, 422}}}
			f.did(loadOp().Step)
		}, slo.Pass, "No call of step fill was refused with 403 or 422, which it expects; an objective on call-success with max demands it."},
		{"nothing fails where failures are put up with", func(f *flight) {
			f.sc.Steps = []scenario.Step{{Name: loadOp().Step, Expects: []int{0, 503}}}
			f.did(loadOp().Step)
		}, slo.Pass, ""},
		{"ignored", func(f *flight) {
			f.sc.FailedCalls = scenario.Ignore
			f.refuse(other, 2, 422, record.Call{})
		}, slo.Pass, "2 of the load's 1002 calls failed."},
		{"within a bound of the scenario's own", func(f *flight) {
			f.objective(scenario.Objective{SLI: slo.FailedCalls, Statistic: "count", Labels: map[string]string{"step": "away"}, Max: new(5.0)})
			f.refuse(other, 2, 422, record.Call{})
		}, slo.Pass, "2 of the load's 1002 calls failed."},
		{"a bound of the scenario's own for another step", func(f *flight) {
			f.objective(scenario.Objective{SLI: slo.FailedCalls, Statistic: "count", Labels: map[string]string{"step": "fill"}, Max: new(5.0)})
			f.refuse(other, 2, 422, record.Call{})
		}, slo.Fail, "failed calls of the load: 2 of 2"},
		{"a bound of the scenario's own for the time of another step", func(f *flight) {
			f.objective(scenario.Objective{SLI: slo.FailedCalls, Statistic: "count", Step: "fill", Max: new(5.0)})
			f.refuse(other, 2, 422, record.Call{})
		}, slo.Fail, "failed calls of the load: 2 of 2"},
		{"within a share of the scenario's own", func(f *flight) {
			f.objective(scenario.Objective{SLI: "call-success", Statistic: "mean", Min: new(0.99)})
			f.refuse(other, 2, 422, record.Call{})
		}, slo.Pass, "2 of the load's 1002 calls failed."},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Labels: map[string]string{"step": "fill"}, Max: new(60.0)})
			f.calls(1000)
			c.fly(f)
			f.end(record.Done)
			j := f.judge()
			reason := strings.Join(j.Reasons, " ")
			if j.Verdict != c.want || !strings.HasPrefix(reason, c.reason) || c.want == slo.Pass && c.reason == "" && reason != "" {
				t.Errorf("verdict %s, want %s; reasons %q, want %q first", j.Verdict, c.want, j.Reasons, c.reason)
			}
		})
	}
}

// TestLatencyOfCallsThatAllFailed is no pass: nothing is known of one that
// succeeds.
func TestLatencyOfCallsThatAllFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		statistic string
		code      uint16
	}{
		"refused":           {"p50", 422},
		"not allowed":       {"p99", 403},
		"not there":         {"p50", 404},
		"failing inside":    {"mean", 500},
		"of a shared limit": {"p90", 429},
	} {
		f := newFlight(t)
		f.sc.FailedCalls = scenario.Ignore
		f.objective(scenario.Objective{SLI: "call-latency", Statistic: tt.statistic, Name: "c", Max: new(60.0)})
		f.refuse(loadOp(), 20, tt.code, record.Call{})
		f.end(record.Done)
		r := f.judge().Objectives[0]
		if r.Verdict != slo.Unknown || r.Failed != 20 || !strings.Contains(strings.Join(r.Warnings, " "), "all 20 calls failed") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestFailuresAreCountedFromTheCalls has the records of a run that was killed,
// with the first of the failures told and the last not.
func TestFailuresAreCountedFromTheCalls(t *testing.T) {
	f := newFlight(t)
	f.refuse(loadOp(), 7, 422, record.Call{})
	f.refuse(loadOp(), 3, 403, record.Call{})
	f.tell(loadOp(), 422, 1, "Invalid", "no")
	f.tell(loadOp(), 422, 2, "Invalid", "another")
	got := f.judge().Failures
	if len(got) != 2 || got[0].Count != 7 || got[0].Message != "no" || got[0].Object != "n/a-0" || got[1].Count != 3 || got[1].Code != 403 {
		t.Errorf("%+v", got)
	}
}
