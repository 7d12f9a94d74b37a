package slo_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestWhatWasAskedFor holds that a run whose objectives all hold is no pass where
// something else that it was asked for did not come about.
func TestWhatWasAskedFor(t *testing.T) {
	steps := func(names ...string) (out []scenario.Step) {
		for _, name := range names {
			out = append(out, scenario.Step{Name: name})
		}
		return out
	}
	failed := func(f *flight, step string, state record.State, why string) {
		f.event(50, record.EventStepBegan, step, "")
		f.w.Event(record.Event{At: at(60), Type: record.EventStepEnded, Name: step, Text: why, Detail: record.Detail{State: state}})
	}
	for _, c := range []struct {
		name string
		fly  func(*flight)
		want slo.Verdict
		says string
	}{
		{"all of it was done", func(f *flight) {
			f.sc.Steps = steps("a", "b")
			f.did("a")
			f.did("b")
			f.m.Plane.CPULimit, f.m.Plane.Limited, f.m.Machine.Cores = 2, true, 2
		}, slo.Pass, ""},
		{"a step that failed, and the run went on", func(f *flight) { failed(f, "ready", "", "of 2 pods the condition held for 0 within 5s; 2 were wanted") },
			slo.Unknown, "Step ready was not completed: of 2 pods the condition held for 0 within 5s; 2 were wanted."},
		{"a command that failed", func(f *flight) { failed(f, "hook", record.Refuted, "command `/bin/false` exited with code 1") },
			slo.Fail, "Step hook failed: command `/bin/false` exited with code 1."},
		{"a command that failed on a busy machine", func(f *flight) {
			failed(f, "hook", record.Refuted, "command `/bin/false` exited with code 1")
			for i := range 100 {
				f.call(loadOp(), 50, 1, 1.1+float64(i)/1000, record.OK)
			}
		}, slo.Fail, "Step hook failed"},
		{"a step of a state of a later version", func(f *flight) { failed(f, "ready", "postponed", "it rains") },
			slo.Unknown, "Step ready was not completed: it rains."},
		{"a step that the run did not come to", func(f *flight) { f.sc.Steps = steps("a"); f.did("b") },
			slo.Unknown, "Step a was not completed: the run did not come to it."},
		{"a step without an end", func(f *flight) { f.event(50, record.EventStepBegan, "a", "") },
			slo.Unknown, "Step a was not completed: the records have no end of it."},
		{"a step before the first one", func(f *flight) { f.event(9, record.EventStepEnded, "members", "1 of 3 did not start") },
			slo.Unknown, "Step members was not completed: 1 of 3 did not start."},
		{"a step inside is told once", func(f *flight) {
			failed(f, "inner", "", "it did not come")
			f.event(50, record.EventStepBegan, "outer", "")
			f.w.Event(record.Event{At: at(61), Type: record.EventStepEnded, Name: "outer", Text: "step failed: inner: it did not come", Detail: record.Detail{Step: "inner"}})
		}, slo.Unknown, "Step inner was not completed: it did not come."},
		{"what the run itself says", func(f *flight) {
			f.w.Event(record.Unmet(at(5), "the work of the fleet", record.NotDone, "a stage has a fault"))
		}, slo.Unknown, "The work of the fleet was not completed: a stage has a fault."},
		{"a field of an imported file", func(f *flight) {
			f.w.Event(record.Unmet(at(5), "config.yaml:7: job.objects", record.NotHonored, "they need KubeVirt"))
		}, slo.Unknown, "config.yaml:7: job.objects is not honored: they need KubeVirt."},
		{"what is not measured", func(f *flight) {
			f.w.Event(record.Unmet(at(5), "lifecycle Widget", record.NotMeasured, "nobody serves widgets"))
		}, slo.Unknown, "Lifecycle Widget was not measured: nobody serves widgets."},
		{"a limit that could not be set", func(f *flight) { f.m.Plane.Components[0].MemoryLimit = 1 << 30 },
			slo.Unknown, "Limit of etcd is not in force: this machine did not let it be set."},
		{"a limit of a subject that could not be set", func(f *flight) {
			f.m.Subjects = []record.SubjectFact{{ComponentFact: record.ComponentFact{Name: "operator", CPULimit: 1}}}
		}, slo.Unknown, "Limit of operator is not in force: this machine did not let it be set."},
		{"programs for a cluster that runs already", func(f *flight) { f.m.Plane.Kind, f.sc.Plane.Binaries = record.KindAttached, "v1.37" },
			slo.Unknown, "Field plane.binaries is not in force: windtunnel has not started this cluster, and cannot set it."},
		{"a release for a cluster that runs already", func(f *flight) { f.m.Plane.Kind, f.sc.Plane.Release = record.KindAttached, "v1.36.3" },
			slo.Unknown, "Field plane.release is not in force: windtunnel has not started this cluster, and cannot set it."},
		{"cores that the machine does not have", func(f *flight) {
			f.m.Plane.CPULimit, f.m.Plane.Limited, f.m.Machine.Cores = 4, true, 2
		}, slo.Unknown, "Limit of the plane is not in force: 4 cores of CPU were asked for, and the machine has 2 cores."},
		{"memory that the machine does not have", func(f *flight) {
			f.m.Plane.MemoryLimit, f.m.Plane.Limited, f.m.Machine.MemoryBytes = 8<<30, true, 4<<30
		}, slo.Unknown, "Limit of the plane is not in force: 8 GiB of memory were asked for, and the machine has 4 GiB."},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Max: new(1.0)})
			f.calls(1000)
			c.fly(f)
			f.end(record.Done)
			j := f.judge()
			if reasons := strings.Join(j.Reasons, " "); j.Verdict != c.want || !strings.HasPrefix(reasons, c.says) || c.says == "" && reasons != "" {
				t.Errorf("verdict %s, want %s; reasons %q, want %q first", j.Verdict, c.want, j.Reasons, c.says)
			}
			if (len(j.Unmet) > 0) != (c.want != slo.Pass) || len(j.Unmet) > 1 {
				t.Errorf("unmet: %+v", j.Unmet)
			}
		})
	}
}

// TestFieldsOfThePlaneInAClusterOfOthers sets one field of the plane after another: none is in
// force in a cluster that runs already, and each has to be told.
func TestFieldsOfThePlaneInAClusterOfOthers(t *testing.T) {
	for field := range reflect.TypeFor[scenario.Plane]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		// A cluster of others keeps what it writes; a balancer comes with apiservers; audit holds where
		// --audit-log names a log, and the run writes an event where it does not.
		// An upgrade of such a cluster is refused, whatever its releases.
		if name == "durability" || name == "balancer" || name == "audit" || name == "allowUnsupportedSkew" {
			continue
		}
		f := newFlight(t)
		f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Max: new(1.0)})
		f.calls(1000)
		f.m.Plane.Kind = record.KindAttached
		set := reflect.ValueOf(&f.sc.Plane).Elem().FieldByIndex(field.Index)
		switch set.Kind() {
		case reflect.String:
			set.SetString("x")
		case reflect.Int:
			set.SetInt(3)
		case reflect.Map:
			set.Set(reflect.ValueOf(map[string]scenario.Component{"etcd": {CPU: 1}}))
		default:
			set.Set(reflect.ValueOf(scenario.Limits{CPU: 1}))
		}
		f.end(record.Done)
		if j := f.judge(); j.Verdict != slo.Unknown || len(j.Unmet) != 1 || j.Unmet[0].State != record.NotInForce {
			t.Errorf("plane.%s: %s, %+v", name, j.Verdict, j.Unmet)
		}
	}
}

// TestRefutedStepThatStopsTheRun is told once, and fails the run.
func TestRefutedStepThatStopsTheRun(t *testing.T) {
	f := newFlight(t)
	f.sc.Steps = []scenario.Step{{Name: "hook"}, {Name: "after"}}
	f.event(50, record.EventStepBegan, "hook", "")
	f.w.Event(record.Event{At: at(60), Type: record.EventStepEnded, Name: "hook", Text: "exit status 1", Detail: record.Detail{State: record.Refuted}})
	f.fails("hook", "exit status 1")
	if j := f.judge(); j.Verdict != slo.Fail || len(j.Reasons) != 1 || j.Reasons[0] != "Step hook failed: exit status 1." {
		t.Errorf("verdict %s, reasons %q", j.Verdict, j.Reasons)
	}
}
