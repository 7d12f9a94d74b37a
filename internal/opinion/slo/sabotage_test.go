package slo_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestSabotagedRunsDoNotPass draws scenarios by chance, writes the records of a run that
// did all that was asked for, and takes one thing out of each: none of them may pass, and
// the same run without sabotage must. A seed of its own draws each scenario.
func TestSabotagedRunsDoNotPass(t *testing.T) {
	const drawn = 1000
	for seed := range uint64(drawn) {
		if j := drawnRun(t, seed, false); j.Verdict != slo.Pass {
			t.Fatalf("seed %d: a run that did everything: %s, %q", seed, j.Verdict, j.Reasons)
		}
		if j := drawnRun(t, seed, true); j.Verdict == slo.Pass {
			t.Errorf("seed %d: sabotaged, and a pass: %q", seed, j.Reasons)
		}
	}
}

// drawnRun judges the run that a seed draws. The scenario of a seed is the same with and
// without sabotage.
func drawnRun(t *testing.T, seed uint64, sabotaged bool) slo.Judgement {
	t.Helper()
	f := newFlight(t)
	rnd := rand.New(rand.NewPCG(seed, 36))
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p50", Max: new(1.0)})
	f.calls(100)
	var asked []ask
	for i := range 1 + rnd.IntN(5) {
		asked = append(asked, everything()[rnd.IntN(len(everything()))](fmt.Sprintf("thing-%d", i), rnd))
	}
	victim := rnd.IntN(len(asked))
	for i, a := range asked {
		if sabotaged && i == victim {
			a.sabotage[rnd.IntN(len(a.sabotage))](f)
		} else {
			a.done(f)
		}
	}
	f.end(record.Done)
	if err := f.w.Close(); err != nil {
		t.Fatal(err)
	}
	return judged(t, collected(t, f.path, &f.sc, f.m))
}

// ask is something that a scenario asks for: the records of a run that did it, and those
// of runs that did not.
type ask struct {
	done     func(*flight)
	sabotage []func(*flight)
}

// everything is what can be asked for, each with a name of its own.
func everything() []func(name string, rnd *rand.Rand) ask {
	return []func(string, *rand.Rand) ask{askStep, askWaitThatFails, askLoad, askLimit, askObjective, askPods, askField}
}

// askStep is a step of any verb that sends nothing.
func askStep(name string, rnd *rand.Rand) ask {
	begins := func(f *flight) {
		f.sc.Steps = append(f.sc.Steps, scenario.Step{Name: name, OnFailure: []string{"", "continue"}[rnd.IntN(2)]})
		f.event(50, record.EventStepBegan, name, "")
	}
	ends := func(state record.State, why string) func(*flight) {
		return func(f *flight) {
			begins(f)
			f.w.Event(record.Event{At: at(60), Type: record.EventStepEnded, Name: name, Text: why, Detail: record.Detail{State: state}})
		}
	}
	return ask{ends("", ""), []func(*flight){
		ends("", "it was not met"), ends(record.NotDone, "it selects nothing"), ends(record.Refuted, "it exited with code 1"), ends("later", "?"), begins,
		func(f *flight) { f.sc.Steps = append(f.sc.Steps, scenario.Step{Name: name}) },
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
	return ask{with(true, ""), []func(*flight){with(true, "0 of 2"), with(false, "")}}
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
	return ask{func(f *flight) { send(f, record.OK) }, []func(*flight){
		func(f *flight) { send(f, record.Failed) }, func(f *flight) { send(f, record.Unknown) },
		func(f *flight) { // late beyond what may be
			send(f, record.OK)
			for range 100 + rnd.IntN(50) { // of some 5,100 at most
				f.call(op, 53, 0.5, 0.6, record.OK)
			}
		},
	}}
}

// askLimit is a limit of a component, a subject or the plane.
func askLimit(name string, rnd *rand.Rand) ask {
	cpu := 0.5 + rnd.Float64()
	set := func(c record.ComponentFact, of int) func(*flight) {
		c.Name = name
		return func(f *flight) {
			f.m.Machine.Cores, f.m.Machine.MemoryBytes = 4, 8<<30
			switch of {
			case 0:
				f.m.Plane.Components = append(f.m.Plane.Components, c)
			default:
				f.m.Subjects = append(f.m.Subjects, record.SubjectFact{ComponentFact: c})
			}
		}
	}
	of := rnd.IntN(2)
	return ask{set(record.ComponentFact{CPULimit: cpu, MemoryLimit: 1 << 30, Limited: true}, of), []func(*flight){
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
	return ask{with(0.1, 1000), []func(*flight){with(2, 1000), with(0.1, 0)}}
}

// askPods bounds the startup of a group of pods.
func askPods(name string, _ *rand.Rand) ask {
	with := func(n int, took float64) func(*flight) {
		return func(f *flight) {
			f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "p99", Labels: map[string]string{"group": name}, Max: new(5.0)})
			f.pods(name, n, took)
		}
	}
	return ask{with(500, 0.4), []func(*flight){with(500, 9), with(0, 0), func(f *flight) {
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
	return ask{func(*flight) {}, []func(*flight){func(f *flight) {
		f.w.Event(record.Unmet(at(2), "config.yaml:7: "+name, state, "it is not honored"))
	}}}
}
