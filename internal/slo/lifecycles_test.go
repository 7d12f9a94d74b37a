package slo_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

// live is one object of a declared lifecycle: phases with their times, and after a
// "~" how long before they may have been reached ("~ever" for any time).
func (f *flight) live(name, group, phases string) {
	id := f.w.Object(record.Object{Resource: "widgets.example.org", Namespace: "n", Name: "w", UID: "u", Group: group, Lifecycle: name})
	f.phases(id, phases)
}

// torn is a pod, in the same notation.
func (f *flight) torn(group, phases string) {
	f.phases(f.w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "p", UID: "u", Group: group}), phases)
}

func (f *flight) phases(id record.ObjectID, text string) {
	words := strings.Fields(text)
	for i := 0; i+1 < len(words); i += 2 {
		when, vague, _ := strings.Cut(words[i+1], "~")
		var seconds, within float64
		_, _ = fmt.Sscan(when, &seconds)
		_, _ = fmt.Sscan(vague, &within)
		p := record.Phase{Object: id, Phase: words[i], At: at(seconds), Within: time.Duration(within * 1e9)}
		if vague == "ever" {
			p.Within = record.Ever
		}
		f.w.Phase(p)
	}
}

func widgetLifecycles() []scenario.Lifecycle {
	return []scenario.Lifecycle{{Name: "widget", Of: "widgets.example.org", Phases: []scenario.Phase{{Condition: "Bound"}, {Condition: "Ready"}}}}
}

// What is known of the time between two phases, by what was recorded.
func TestBoundsOfLifecycles(t *testing.T) {
	for _, tt := range []struct {
		name, phases string
		low, high    float64 // -1 low: the object has no part in it
	}{
		{"seen in time", "created 20 ready 23", 3, 3},
		{"not there yet when the run ended", "created 20", 80, math.Inf(1)},
		{"deleted before it got there", "created 20 deleting 25 deleted 26", 5, math.Inf(1)},
		{"deleted while nobody looked", "created 20 deleted 30~8", 2, math.Inf(1)},
		{"made while nobody looked", "created 22~2 ready 25", 3, 5},
		{"there before anybody looked", "created 22~ever ready 25", -1, 0},
		{"got there while nobody looked", "created 20 ready 30~6", 4, 10},
		{"both while nobody looked", "created 30~6 ready 30~6", 0, 6},
		{"a watch that was late", "created 22.5~1.5 ready 22.6~1.6", 0, 1.6},
		{"seen in the other order, on two watches", "ready 20 created 20.1", 0, 0},
		{"before the run began: lifecycles of nodes", "created 5 ready 6", 1, 1},
		{"never created", "ready 25", -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlight(t)
			f.sc.Lifecycles = widgetLifecycles()
			f.live("widget", "", tt.phases)
			f.end(record.Done)
			f.judge()
			facts, err := run.Collect(f.path, f.m)
			if err != nil {
				t.Fatal(err)
			}
			d := facts.Took(facts.Named("widget"), "created", "ready")
			if tt.low < 0 {
				if d.Len() != 0 {
					t.Errorf("%d samples, want none", d.Len())
				}
				return
			}
			if e := d.Max(); d.Len() != 1 || math.Abs(e.Low-tt.low) > 1e-9 || e.High != tt.high && math.Abs(e.High-tt.high) > 1e-9 {
				t.Errorf("between %v and %v, want %v and %v", e.Low, e.High, tt.low, tt.high)
			}
		})
	}
}

// The same of pods, whose lifecycles say unknown before what nobody saw in time.
func TestBoundsOfPods(t *testing.T) {
	for _, tt := range []struct {
		name, phases string
		low, high    float64
	}{
		{"seen in time after a gap", "created 20 unknown 30~5 bound 30~5 running 33", 13, 13},
		{"while nobody looked", "created 20 bound 21 unknown 30~5 running 30~5", 5, 10},
		{"made while nobody looked", "unknown 30~5 bound 30~5 running 33", 3, 8},
		{"vanished", "created 20 unknown 30~5 deleted 30~5", 5, math.Inf(1)},
		{"a stream of an older version", "created 20 bound 21 unknown 30 running 30", 1, 10},
		{"of an older version, made while nobody looked", "unknown 30 running 33", 0, math.Inf(1)},
		{"there before the run began", "unknown 5~ever running 33", -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlight(t)
			f.torn("g", tt.phases)
			f.end(record.Done)
			f.judge()
			facts, err := run.Collect(f.path, f.m)
			if err != nil {
				t.Fatal(err)
			}
			d := facts.Took(facts.Named(scenario.PodLifecycle), "created", "running")
			if tt.low < 0 {
				if d.Len() != 0 {
					t.Errorf("%d samples, want none", d.Len())
				}
				return
			}
			if e := d.Max(); d.Len() != 1 || math.Abs(e.Low-tt.low) > 1e-9 || e.High != tt.high && math.Abs(e.High-tt.high) > 1e-9 {
				t.Errorf("%d samples, between %v and %v, want %v and %v", d.Len(), e.Low, e.High, tt.low, tt.high)
			}
		})
	}
}

// Objectives on lifecycles, by group and per group, and what stands in verdict.json.
func TestObjectivesOnLifecycles(t *testing.T) {
	f := newFlight(t)
	f.sc.Lifecycles = widgetLifecycles()
	for _, o := range []scenario.Objective{
		{Name: "all", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready"}, Statistic: "p99", Max: ptr(5)},
		{Name: "quick", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready", "group": "a"}, Statistic: "p99", Max: ptr(1.5)},
		{Name: "gone", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "deleting..deleted"}, Statistic: "max", Max: ptr(1)},
		{Name: "none", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "ready..bound"}, Statistic: "max", Max: ptr(1)},
		{Name: "pods", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "pod", "phase": "created..running"}, Statistic: "p50", Max: ptr(1)},
		{Name: "each", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..bound"}, Per: []string{"group"}, Statistic: "max", Max: ptr(10)},
	} {
		f.objective(o)
	}
	for i := range 200 {
		f.live("widget", "a", fmt.Sprintf("created %d bound %[1]d.5 ready %d", 20+i%10, 21+i%10))
		f.live("widget", "b", fmt.Sprintf("created %d bound %d ready %d", 20+i%10, 22+i%10, 28+i%10))
	}
	f.pods("g", 100, 0.5)
	f.end(record.Done)
	j := f.judge()
	for _, want := range []struct {
		name, group string
		verdict     slo.Verdict
		value       float64
		samples     int
	}{
		{"all", "", slo.Fail, 8, 400}, {"quick", "a", slo.Pass, 1, 200}, {"gone", "", slo.Unknown, 0, 0}, {"none", "", slo.Pass, 0, 400},
		{"pods", "", slo.Pass, 0.5, 100}, {"each", "a", slo.Pass, 0.5, 200}, {"each", "b", slo.Pass, 2, 200},
	} {
		labels := map[string]string{}
		if want.group != "" {
			labels["group"] = want.group
		}
		r := find(t, j, want.name, labels)
		if r.Verdict != want.verdict || r.Samples != want.samples || want.samples > 0 && *r.Value != want.value {
			t.Errorf("%s %s: %+v", want.name, want.group, r)
		}
		if want.name == "none" && !strings.Contains(strings.Join(r.Warnings, " "), "400 of 400 objects were seen bound before ready") {
			t.Errorf("warnings %v", r.Warnings)
		}
	}
	if m := j.Measures["lifecycle_widget_created_to_ready_p50_seconds_a"]; m.Value != 1 {
		t.Errorf("measure %+v of %v", m, len(j.Measures))
	}
	if m := j.Measures["lifecycles_widget_ready"]; m.Value != 400 || m.Unit != "objects" {
		t.Errorf("measure %+v", m)
	}
	var said []string
	for _, s := range j.Lifecycles {
		if s.Group == "b" {
			said = append(said, fmt.Sprintf("%s..%s %d %v", s.From, s.To, s.Samples, *s.Values[3].Value))
		}
		if len(s.Values) != 6 || s.Values[0].Interval == nil {
			t.Errorf("summary %+v", s)
		}
	}
	if got, want := strings.Join(said, ", "), "created..bound 200 2, created..ready 200 8, bound..ready 200 6"; got != want {
		t.Errorf("summaries of b: %s, want %s", got, want)
	}
}

// Objects that the load made and nobody saw are not left out.
func TestUnseenObjectsCount(t *testing.T) {
	f := newFlight(t)
	f.sc.Lifecycles = widgetLifecycles()
	f.objective(scenario.Objective{Name: "all", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready"}, Statistic: "p99", Max: ptr(5)})
	op := loadOp()
	op.Resource = "widgets.example.org"
	for i := range 100 {
		f.call(op, 20, 0, 0.01, record.OK)
		if i < 90 {
			f.live("widget", "", "created 20 ready 21")
		}
	}
	f.end(record.Done)
	r := find(t, f.judge(), "all", nil)
	if r.Verdict != slo.Unknown || r.Samples != 100 || !strings.Contains(strings.Join(r.Warnings, " "), "10 objects that the load created were never seen") {
		t.Errorf("%+v", r)
	}
}
