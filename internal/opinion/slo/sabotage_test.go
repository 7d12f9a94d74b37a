package slo_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestSabotagedRunsDoNotPass draws scenarios by chance, writes the records of a run that
// did all that was asked for, and takes one thing out of each: none of them may pass, and
// the same run without sabotage must. A seed of its own draws each scenario. Every verb of a
// step and every fault is sabotaged at least once.
func TestSabotagedRunsDoNotPass(t *testing.T) {
	const drawn = 1000
	sabotaged := map[string]bool{}
	for seed := range uint64(drawn) {
		if j := drawnRun(t, seed, false, nil); j.Verdict != slo.Pass {
			t.Fatalf("seed %d: a run that did everything: %s, %q", seed, j.Verdict, j.Reasons)
		}
		if j := drawnRun(t, seed, true, sabotaged); j.Verdict == slo.Pass {
			t.Errorf("seed %d: sabotaged, and a pass: %q", seed, j.Reasons)
		}
	}
	for _, what := range slices.Concat(stepVerbs(), wordsOf(t, "Disturbance", "action")) {
		if !sabotaged[what] {
			t.Errorf("%s was never sabotaged", what)
		}
	}
}

// stepVerbs are the fields of a step that say what it does.
func stepVerbs() (out []string) {
	for field := range reflect.TypeFor[scenario.Step]().Fields() {
		if name := field.Tag.Get("yaml"); (field.Type.Kind() == reflect.Pointer || name == "pause") && name != "repeat" { // Load replaces it by its steps
			out = append(out, name)
		}
	}
	return out
}

// wordsOf are the words that a field of the language takes.
func wordsOf(t *testing.T, typeName, field string) []string {
	t.Helper()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct{ AnyOf []struct{ Enum []string } }
		} `json:"$defs"`
	}
	repotest.NoError(t, json.Unmarshal(scenario.Schema(), &schema))
	any := schema.Defs[typeName].Properties[field].AnyOf
	if len(any) == 0 || len(any[0].Enum) == 0 {
		t.Fatalf("the schema has no words for %s.%s", typeName, field)
	}
	return any[0].Enum
}

// TestNothingMeasuredIsNoPass asks for every statistic of every SLI of a run that has
// records of none: no result is a pass. What the API server counts is known to be 0, so it
// passes where 0 is within the bound.
func TestNothingMeasuredIsNoPass(t *testing.T) {
	f := newFlight(t)
	for _, x := range sli.All() {
		for _, statistic := range x.Statistics {
			f.objective(scenario.Objective{Name: x.Name + " at least", SLI: x.Name, Statistic: statistic, Min: new(1.0)})
			f.objective(scenario.Objective{Name: x.Name + " at most", SLI: x.Name, Statistic: statistic, Max: new(1.0)})
			for label := range x.Labels {
				f.objective(scenario.Objective{Name: x.Name + " at least", SLI: x.Name, Statistic: statistic, Min: new(1.0), Labels: map[string]string{label: "nobody"}})
				f.objective(scenario.Objective{Name: x.Name + " at most", SLI: x.Name, Statistic: statistic, Max: new(1.0), Labels: map[string]string{label: "nobody"}})
			}
		}
	}
	f.end(record.Done)
	for _, r := range f.judge().Objectives {
		x, _ := sli.Find(r.SLI)
		zero := x.Kind == sli.Counter && x.Server() == "kube-apiserver" && r.Value != nil && *r.Value == 0 && !r.AtLeast
		if r.Verdict == slo.Pass && !zero {
			t.Errorf("%s, %s %v: a pass with %v", r.Name, r.Statistic, r.Labels, r.Value)
		}
	}
}

// drawnRun judges the run that a seed draws. The scenario of a seed is the same with and
// without sabotage.
func drawnRun(t *testing.T, seed uint64, sabotaged bool, what map[string]bool) slo.Judgement {
	t.Helper()
	f := newFlight(t)
	rnd := rand.New(rand.NewPCG(seed, 36))
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Max: new(1.0)})
	f.calls(100)
	f.m.Started = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	all := everything(t)
	var asked []ask
	for i := range 1 + rnd.IntN(5) {
		asked = append(asked, all[rnd.IntN(len(all))](fmt.Sprintf("thing-%d", i), rnd))
	}
	victim := rnd.IntN(len(asked))
	for i, a := range asked {
		if sabotaged && i == victim {
			a.sabotage[rnd.IntN(len(a.sabotage))](f)
			what[a.what], what[a.fault] = true, true
		} else {
			a.done(f)
		}
	}
	f.end(record.Done)
	repotest.NoError(t, f.w.Close())
	return judged(t, collected(t, f.path, &f.sc, f.m))
}

// ask is something that a scenario asks for: the records of a run that did it, and those
// of runs that did not.
type ask struct {
	what     string // the verb of a step, or what else it is
	fault    string // the action
	done     func(*flight)
	sabotage []func(*flight)
}

// everything is what can be asked for, each with a name of its own.
func everything(t *testing.T) []func(name string, rnd *rand.Rand) ask {
	actions := wordsOf(t, "Disturbance", "action")
	fault := func(name string, rnd *rand.Rand) ask { return askFault(name, actions[rnd.IntN(len(actions))], rnd) }
	return []func(string, *rand.Rand) ask{askStep, fault, askWaitThatFails, askLoad, askLimit, askPlane, askProcess, askWorker, askQuery, askObjective, askPods, askField}
}

// drawStep draws a step of any verb, in members or not.
func drawStep(name string, rnd *rand.Rand) (step scenario.Step, verb string) {
	verbs := stepVerbs()
	verb = verbs[rnd.IntN(len(verbs))]
	v := reflect.ValueOf(&step).Elem()
	for field := range v.Type().Fields() {
		if field.Tag.Get("yaml") == verb && field.Type.Kind() == reflect.Pointer {
			v.FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		}
	}
	step.Name, step.OnFailure, step.Cluster = name, []string{"", "continue"}[rnd.IntN(2)], []string{"", "hollow", "*"}[rnd.IntN(3)]
	return step, verb
}

// askStep is a step of any verb that sends nothing.
func askStep(name string, rnd *rand.Rand) ask {
	step, verb := drawStep(name, rnd)
	out := askOfStep(name, step)
	out.what = verb
	return out
}

// askFault is a fault of any kind: of a process, one of several or whichever leads, of
// members, a client, nodes or pods.
func askFault(name, action string, rnd *rand.Rand) ask {
	d := &scenario.Disturbance{Action: action}
	switch rnd.IntN(5) {
	case 0:
		d.Component = []string{"etcd", "etcd-2", "etcd-leader", "kube-apiserver-1", "kube-scheduler-leader"}[rnd.IntN(5)]
	case 1:
		d.Cluster = "*"
	case 2:
		d.Client = "load"
	case 3:
		d.Nodes = &scenario.Victims{Count: 1}
	default:
		d.Pods = &scenario.Victims{Percent: 10}
	}
	out := askOfStep(name, scenario.Step{Name: name, Fault: d})
	out.what, out.fault = "fault", action
	out.sabotage = append(out.sabotage, func(f *flight) { // the step ended before the fault did
		out.done(f)
		f.w.Event(record.Unmet(at(70), "step "+name, record.NotDone, "nothing to disturb"))
	})
	return out
}

// askOfStep is what the records of a step may be.
func askOfStep(name string, step scenario.Step) ask {
	begins := func(f *flight) {
		f.sc.Steps = append(f.sc.Steps, step)
		f.event(50, record.EventStepBegan, name, "")
	}
	ends := func(state record.State, why string) func(*flight) {
		return func(f *flight) {
			begins(f)
			f.w.Event(record.Event{At: at(60), Type: record.EventStepEnded, Name: name, Text: why, Detail: record.Detail{State: state}})
		}
	}
	return ask{done: ends("", ""), sabotage: []func(*flight){
		ends("", "it was not met"), ends(record.NotDone, "it selects nothing"), ends(record.Refuted, "it exited with code 1"), ends("later", "?"), begins,
		func(f *flight) { f.sc.Steps = append(f.sc.Steps, step) },
		func(f *flight) { f.event(60, record.EventStepEnded, name, "it was not met") },
	}}
}

// askWaitThatFails is a wait that fails the run.
func askWaitThatFails(name string, _ *rand.Rand) ask {
	with := func(end bool, why string) func(*flight) {
		return func(f *flight) {
			f.sc.Steps = append(f.sc.Steps, scenario.Step{Name: name, Wait: &scenario.Wait{Unmet: scenario.FailRun}})
			f.event(50, record.EventStepBegan, name, "")
			if end {
				f.event(60, record.EventStepEnded, name, why)
			}
		}
	}
	return ask{done: with(true, ""), sabotage: []func(*flight){with(true, "0 of 2"), with(false, "")}}
}

// askLoad is a step that sends calls.
func askLoad(name string, rnd *rand.Rand) ask {
	op := record.Op{Source: "load", Step: name, Verb: "create", Resource: "configmaps", Scope: "resource"}
	send := func(f *flight, outcome record.Outcome) {
		f.sc.Steps = append(f.sc.Steps, scenario.Step{Name: name})
		f.did(name)
		for i := range 10 {
			f.call(op, 50+float64(i)/10, 0, 0.01, record.OK)
		}
		if outcome != record.OK {
			f.call(op, 52, 0, 0.01, outcome)
		}
	}
	return ask{done: func(f *flight) { send(f, record.OK) }, sabotage: []func(*flight){
		func(f *flight) { send(f, record.Failed) }, func(f *flight) { send(f, record.Unknown) },
		func(f *flight) { // late beyond what may be
			send(f, record.OK)
			for range 100 + rnd.IntN(50) { // of some 5,100 at most
				f.call(op, 53, 0.5, 0.6, record.OK)
			}
		},
	}}
}

// askPlane are processes of which the plane is to have several.
func askPlane(_ string, rnd *rand.Rand) ask {
	which := rnd.IntN(4)
	asked := func(f *flight) {
		*[]*int{&f.sc.Plane.EtcdMembers, &f.sc.Plane.APIServers, &f.sc.Plane.Schedulers, &f.sc.Plane.ControllerManagers}[which] = 3
	}
	return ask{what: "several processes", done: asked, sabotage: []func(*flight){func(f *flight) {
		asked(f)
		f.m.Plane.Kind = record.KindAttached // which has what it has
	}}}
}

// askProcess is that the plane's processes live.
func askProcess(string, *rand.Rand) ask {
	return ask{what: "process", done: func(*flight) {}, sabotage: []func(*flight){func(f *flight) {
		f.event(70, record.EventDied, "etcd-1", "etcd-1 died (killed)")
	}}}
}

// askWorker is that the workers of a run do their share.
func askWorker(name string, _ *rand.Rand) ask {
	return ask{what: "worker", done: func(*flight) {}, sabotage: []func(*flight){func(f *flight) {
		f.m.Workers = &record.WorkersFact{Count: 2}
		f.w.Event(record.Event{At: at(70), Type: record.EventWorkerLost, Name: name, Text: "it was silent"})
	}}}
}

// askQuery is a query of an objective or of a measure.
func askQuery(name string, _ *rand.Rand) ask {
	const query = "nothing_of_this_name"
	return ask{what: "query", done: func(f *flight) {
		f.sc.Measures = append(f.sc.Measures, scenario.Measure{Name: name, Query: query, Optional: true})
	}, sabotage: []func(*flight){
		func(f *flight) { f.sc.Measures = append(f.sc.Measures, scenario.Measure{Name: name, Query: query}) },
		func(f *flight) { f.objective(scenario.Objective{Name: name, Query: query, Max: new(1.0)}) },
		func(f *flight) { f.objective(scenario.Objective{Name: name, Unsupported: "nobody can measure it"}) },
	}}
}

// askLimit is a limit of a component, a subject or the plane.
func askLimit(name string, rnd *rand.Rand) ask {
	cpu := 0.5 + rnd.Float64()
	set := func(c record.ComponentFact, of int) func(*flight) {
		c.Name = name
		return func(f *flight) {
			f.m.Machine.Cores, f.m.Machine.MemoryBytes = 4, 8<<30
			switch whole, limited := f.m.Plane.Whole(); {
			case of == 0:
				f.m.Plane.Components = append(f.m.Plane.Components, c)
			case of == 1 && (!limited || whole.Limited && whole.CPULimit <= 4 && whole.MemoryLimit <= 8<<30): // one that is sabotaged stays
				f.m.Plane.CPULimit, f.m.Plane.MemoryLimit, f.m.Plane.Limited = c.CPULimit, c.MemoryLimit, c.Limited
			case of == 1:
			default:
				f.m.Subjects = append(f.m.Subjects, record.SubjectFact{ComponentFact: c})
			}
		}
	}
	of := rnd.IntN(3)
	return ask{what: "limit", done: set(record.ComponentFact{CPULimit: cpu, MemoryLimit: 1 << 30, Limited: true}, of), sabotage: []func(*flight){
		set(record.ComponentFact{CPULimit: cpu}, of), set(record.ComponentFact{MemoryLimit: 1 << 30}, of),
		set(record.ComponentFact{CPULimit: 4.5, Limited: true}, of), set(record.ComponentFact{MemoryLimit: 9 << 30, Limited: true}, of),
		func(f *flight) {
			set(record.ComponentFact{CPULimit: cpu, Limited: true}, of)(f)
			f.w.Event(record.Unmet(at(70), "limit of "+name, record.NotInForce, "after a restart it could not be set"))
		},
	}}
}

// askObjective bounds the calls of a step.
func askObjective(name string, _ *rand.Rand) ask {
	op := record.Op{Source: "load", Step: name, Verb: "patch", Resource: "pods", Scope: "resource"}
	with := func(took float64, calls int) func(*flight) {
		return func(f *flight) {
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Labels: map[string]string{"step": name}, Max: new(1.0)})
			for i := range calls {
				f.call(op, 50+float64(i)/100, 0, took, record.OK)
			}
		}
	}
	return ask{done: with(0.1, 1000), sabotage: []func(*flight){with(2, 1000), with(0.1, 0)}}
}

// askPods bounds the startup of a group of pods.
func askPods(name string, _ *rand.Rand) ask {
	with := func(n int, took float64) func(*flight) {
		return func(f *flight) {
			f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "p99", Labels: map[string]string{"group": name}, Max: new(5.0)})
			f.pods(name, n, took)
		}
	}
	return ask{done: with(500, 0.4), sabotage: []func(*flight){with(500, 9), with(0, 0), func(f *flight) {
		with(500, 0.4)(f)
		for range 100 { // seen being created, and never again
			f.pod(name, "created", 21.0)
		}
	}}}
}

// askField is a field of an imported file, or anything else that the run itself tells of.
func askField(name string, rnd *rand.Rand) ask {
	states := []record.State{record.Refuted, record.NotDone, record.NotInForce, record.NotMeasured, record.NotHonored, "", "later"}
	state := states[rnd.IntN(len(states))]
	return ask{what: "field", done: func(*flight) {}, sabotage: []func(*flight){func(f *flight) {
		f.w.Event(record.Unmet(at(2), "config.yaml:7: "+name, state, "it is not honored"))
	}}}
}
