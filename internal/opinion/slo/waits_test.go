package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestWaitsThatAreNotMet judges a step that waits, whose run did all the rest.
func TestWaitsThatAreNotMet(t *testing.T) {
	for _, tt := range []struct {
		name, unmet string
		fly         func(*flight)
		want        slo.Verdict
		reason      string
	}{
		{"met", scenario.FailRun, func(f *flight) { f.event(41, record.EventStepEnded, "ready", ""); f.end(record.Done) }, slo.Pass, ""},
		{"not met, which fails", scenario.FailRun, func(f *flight) { f.event(41, record.EventStepEnded, "ready", "3 of 5 ran"); f.end(record.Done) }, slo.Fail, "wait not met (ready): 3 of 5 ran."},
		{"not met, which is unknown", scenario.UnknownRun, func(f *flight) {
			f.event(41, record.EventStepEnded, "ready", "3 of 5 ran")
			f.fails("ready", "3 of 5 ran")
		},
			slo.Unknown, "step ready failed: 3 of 5 ran"},
		{"not reached", scenario.FailRun, func(f *flight) { f.fails("ready", "etcd is slow") }, slo.Unknown, "wait not met (ready) is unknown: the run did not come to the end of step ready."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlight(t)
			f.sc.Steps = []scenario.Step{{Name: "ready", Wait: &scenario.Wait{Unmet: tt.unmet}}}
			f.calls(100)
			f.event(40, record.EventStepBegan, "ready", "")
			tt.fly(f)
			j := f.judge()
			if why := strings.Join(j.Reasons, " "); j.Verdict != tt.want || !strings.Contains(why, tt.reason) || tt.reason == "" && why != "" {
				t.Errorf("verdict %s, reasons %q", j.Verdict, j.Reasons)
			}
		})
	}
}

// TestChurnsThatEnd: the objective of a churn is about what it waits for. What ends it before,
// such as an object that is not gone, is not a wait that was not met.
func TestChurnsThatEnd(t *testing.T) {
	for _, tt := range []struct {
		name, note string
		state      record.State
		want       slo.Verdict
		reason     string
	}{
		{"met", "", "", slo.Pass, ""},
		{"not met", "cycle 1: 3 of 5 ran", record.Refuted, slo.Fail, "wait not met (churn): cycle 1: 3 of 5 ran."},
		{"not gone", "cycle 1: pods a/b was deleted and did not go", "", slo.Unknown, "Step churn was not completed: cycle 1: pods a/b was deleted and did not go."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlight(t)
			f.sc.Steps = []scenario.Step{{Name: "churn", Churn: &scenario.Churn{Wait: []scenario.Wait{{}, {Unmet: scenario.FailRun}}}}}
			f.calls(100)
			f.event(40, record.EventStepBegan, "churn", "")
			f.w.Event(record.Event{At: at(41), Type: record.EventStepEnded, Name: "churn", Text: tt.note, Detail: record.Detail{State: tt.state}})
			f.end(record.Done)
			j := f.judge()
			if why := strings.Join(j.Reasons, " "); j.Verdict != tt.want || !strings.Contains(why, tt.reason) || tt.reason == "" && why != "" {
				t.Errorf("verdict %s, reasons %q", j.Verdict, j.Reasons)
			}
		})
	}
}
