package slo_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// live is one object of a declared lifecycle: phases with their times, and after a
// "~" how long before they may have been reached ("~ever" for any time).
func (f *flight) live(name, group, phases string) {
	id := f.w.Object(record.Object{Resource: "widgets.example.org", Namespace: "n", Name: "w", UID: "u", Group: group, Lifecycle: name})
	f.phases(id, phases)
}

// interrupted is a pod, in the same notation.
func (f *flight) interrupted(group, phases string) {
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

// Objectives on lifecycles, by group and per group, and what stands in verdict.json.
func TestObjectivesOnLifecycles(t *testing.T) {
	f := newFlight(t)
	f.sc.Lifecycles = widgetLifecycles()
	for _, o := range []scenario.Objective{
		{Name: "all", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready"}, Statistic: "p99", Max: new(5.0)},
		{Name: "quick", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready", "group": "a"}, Statistic: "p99", Max: new(1.5)},
		{Name: "gone", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "deleting..deleted"}, Statistic: "max", Max: new(1.0)},
		{Name: "none", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "ready..bound"}, Statistic: "max", Max: new(1.0)},
		{Name: "pods", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "pod", "phase": "created..running"}, Statistic: "p50", Max: new(1.0)},
		{Name: "each", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..bound"}, Per: []string{"group"}, Statistic: "max", Max: new(10.0)},
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

// Lifecycles in members are summed over all of them, and told apart by the label
// cluster; what the load made in one and nobody saw is missing there and in the sum.
func TestObjectivesOnLifecyclesInMembers(t *testing.T) {
	f := newFlight(t)
	f.sc.Members = []scenario.Members{{Name: "edge", Count: 2}, {Name: "far", Count: 1}}
	f.sc.Lifecycles = append(widgetLifecycles(), scenario.Lifecycle{Use: "pod", Cluster: "edge"})
	f.sc.Lifecycles[0].Cluster = "*"
	f.sc.Steps = []scenario.Step{{Name: "fill", Cluster: "*", Create: &scenario.Create{Group: "g"}}}
	widget := map[string]string{"lifecycle": "widget", "phase": "created..ready"}
	for _, o := range []scenario.Objective{
		{Name: "all", SLI: "lifecycle", Labels: widget, Statistic: "p99", Max: new(5.0)},
		{Name: "each", SLI: "lifecycle", Labels: widget, Per: []string{"cluster"}, Statistic: "max", Max: new(5.0)},
		{Name: "pods", SLI: "pod-startup", Statistic: "max", Max: new(5.0)},
		{Name: "each-pods", SLI: "pod-startup", Labels: map[string]string{"group": "g"}, Per: []string{"cluster"}, Statistic: "max", Max: new(5.0)},
		{Name: "rate", SLI: "pods-running-rate", Labels: map[string]string{"cluster": "edge-2"}, Statistic: "mean", Min: new(1.0)},
	} {
		f.objective(o)
	}
	for i, member := range []string{"edge-1", "edge-2", "far-1"} {
		op := loadOp()
		op.Step, op.Resource, op.Cluster = "fill", "widgets.example.org", member
		pods := op
		pods.Resource = "pods"
		for k := range 100 {
			f.call(op, 20, 0, 0.01, record.OK)
			f.call(pods, 20, 0, 0.01, record.OK)
			if member == "edge-2" && k >= 90 {
				continue
			}
			f.phases(f.w.Object(record.Object{Resource: "widgets.example.org", Name: "w", UID: "u", Lifecycle: "widget", Cluster: member}), fmt.Sprintf("created 20 ready %d", 21+i))
			if member != "far-1" {
				f.phases(f.w.Object(record.Object{Resource: "pods", Name: "p", UID: "u", Group: "g", Cluster: member}), fmt.Sprintf("created 20 bound 20 running %d", 21+k*i/50))
			}
		}
	}
	f.end(record.Done)
	j := f.judge()
	for _, want := range []struct {
		name, cluster string
		verdict       slo.Verdict
		samples       int
		warned        bool
	}{
		{"all", "", slo.Unknown, 300, true}, {"each", "edge-1", slo.Pass, 100, false}, {"each", "edge-2", slo.Unknown, 100, true}, {"each", "far-1", slo.Pass, 100, false},
		{"pods", "", slo.Unknown, 200, true}, {"each-pods", "edge-1", slo.Pass, 100, false}, {"each-pods", "edge-2", slo.Unknown, 100, true}, {"rate", "edge-2", slo.Pass, 90, true},
	} {
		labels := map[string]string{}
		if want.cluster != "" {
			labels["cluster"] = want.cluster
		}
		r := find(t, j, want.name, labels)
		if r.Verdict != want.verdict || r.Samples != want.samples || (len(r.Warnings) > 0) != want.warned {
			t.Errorf("%s %s: %+v", want.name, want.cluster, r)
		}
	}
}

// Objects that the load made and nobody saw are not left out.
func TestUnseenObjectsCount(t *testing.T) {
	f := newFlight(t)
	f.sc.Lifecycles = widgetLifecycles()
	f.objective(scenario.Objective{Name: "all", SLI: "lifecycle", Labels: map[string]string{"lifecycle": "widget", "phase": "created..ready"}, Statistic: "p99", Max: new(5.0)})
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
