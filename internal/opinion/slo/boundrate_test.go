package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestBoundRate has 100 pods that are bound at 20/s in the first five seconds
// and at 4/s in those after.
func TestBoundRate(t *testing.T) {
	f := newFlight(t)
	for i := range 100 {
		f.pod("g", "created", 20.0, "bound", 20.01+float64(i)/20)
	}
	for i := range 20 {
		f.pod("g", "created", 20.0, "bound", 25.01+float64(i)/4)
	}
	f.pod("other", "created", 1.0, "bound", 90.0)
	f.end(record.Done)
	for _, tt := range []struct {
		statistic, window string
		want              float64
		windows           int
	}{
		{"max", "", 20, 2},
		{"p50", "", 4, 2},
		{"p90", "", 20, 2},
		{"mean", "", 12, 2},
		{"max", "1s", 20, 10},
		{"p50", "1s", 4, 10},
		{"max", "20s", 6, 1},
	} {
		least := 1.0
		f.sc.Objectives = []scenario.Objective{{SLI: "pods-bound-rate", Statistic: tt.statistic,
			Labels: map[string]string{"group": "g", "window": tt.window}, Min: &least}}
		r := f.judge().Objectives[0]
		if r.Value == nil || *r.Value != tt.want || r.Samples != tt.windows || r.Verdict != slo.Pass || r.Unit != "1/s" {
			t.Errorf("%s in stretches of %q: %+v, want %v of %d", tt.statistic, tt.window, r, tt.want, tt.windows)
		}
	}
	f.sc.Objectives[0].Labels["group"] = "none"
	if r := f.judge().Objectives[0]; r.Verdict != slo.Unknown || r.Value != nil {
		t.Errorf("no pods: %+v", r)
	}
}

// A window that would cut a run into a billion stretches takes no memory, and no
// verdict either.
func TestWindowsOfANanosecond(t *testing.T) {
	f := newFlight(t)
	f.pod("g", "created", 1.0, "bound", 11.0)
	f.end(record.Done)
	least := 1.0
	f.sc.Objectives = []scenario.Objective{{SLI: "pods-bound-rate", Statistic: "max", Labels: map[string]string{"group": "g", "window": "1ns"}, Min: &least}}
	r := f.judge().Objectives[0]
	if r.Verdict != slo.Unknown || r.Value != nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "window 1ns is too short for the 10s in which pods were bound") {
		t.Errorf("%+v", r)
	}
}

func TestUnsupportedIsUnknown(t *testing.T) {
	f := newFlight(t)
	f.calls(10)
	f.sc.Objectives = []scenario.Objective{{Name: "dns", Unsupported: "probe pods need images"}}
	f.end(record.Done)
	got := f.judge()
	if r := got.Objectives[0]; r.Verdict != slo.Unknown || r.Value != nil || len(r.Warnings) != 1 || r.Warnings[0] != "probe pods need images" {
		t.Errorf("%+v", r)
	}
	if got.Verdict != slo.Unknown {
		t.Errorf("the whole is %s: %v", got.Verdict, got.Reasons)
	}
}

func TestTimesBetweenSteps(t *testing.T) {
	f := newFlight(t)
	f.calls(10)
	f.event(20, record.EventStepBegan, "a", "")
	f.event(22, record.EventStepEnded, "a", "")
	f.event(22, record.EventStepBegan, "b", "")
	f.event(25.5, record.EventStepEnded, "b", "")
	f.end(record.Done)
	f.sc.Measures = []scenario.Measure{{Name: "Both Steps", Since: "a", Until: "b"}, {Name: "all"}, {Name: "none", Since: "c"}}
	m := f.judge().Measures
	if m["both_steps_seconds"].Value != 5.5 || m["all_seconds"].Value != runEnd-runBegin {
		t.Errorf("%v", m)
	}
	if _, ok := m["none_seconds"]; ok {
		t.Error("a step that never began has a time")
	}
}
