package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// behavior is what comes of a step each time it is executed.
type behavior struct {
	failures, looks int  // before it is healthy
	never           bool // it never succeeds
	invalid         bool
	duration        time.Duration // of a suspend step; 0: a user resumes the workflow
}

// drawn is a workflow drawn by chance with what comes of its steps.
type drawn struct {
	rng       *rand.Rand
	graph     *workflow.Graph
	behaviors map[string]behavior
	suspends  bool // it has a suspend step: two of them would share one flag
}

func draw(t *testing.T, seed uint64) *drawn {
	t.Helper()
	d := &drawn{rng: rand.New(rand.NewPCG(seed, 0)), behaviors: map[string]behavior{}}
	modes := []string{workflow.DAG, workflow.StepByStep}
	mode := api.WorkflowMode{Steps: modes[d.rng.IntN(2)], SubSteps: modes[d.rng.IntN(2)]}
	var err error
	if d.graph, err = workflow.NewGraph(d.steps("s", 1+d.rng.IntN(6), true), mode); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return d
}

// steps draws steps that depend on earlier ones.
func (d *drawn) steps(prefix string, n int, groups bool) (out []workflow.Step) {
	for i := range n {
		s := workflow.Step{Step: api.Step{Name: fmt.Sprintf("%s%d", prefix, i), Type: "apply-component"}}
		for _, o := range out {
			if d.rng.IntN(4) == 0 {
				s.DependsOn = append(s.DependsOn, o.Name)
			}
			if len(o.Outputs) > 0 && d.rng.IntN(2) == 0 {
				s.Inputs = []api.StepInput{{From: o.Outputs[0].Name}}
			}
		}
		s.If = d.condition(s.DependsOn)
		d.behave(&s, groups)
		out = append(out, s)
	}
	return out
}

// condition draws a condition over steps that are finished when it is evaluated.
func (d *drawn) condition(names []string) string {
	choices := []string{"", "", "", workflow.Always, "true", "false"}
	for _, name := range names {
		choices = append(choices, name+".failed", name+".skipped", name+".succeeded", name+".timeout")
	}
	return choices[d.rng.IntN(len(choices))]
}

func (d *drawn) behave(s *workflow.Step, groups bool) {
	var b behavior
	switch n := d.rng.IntN(9); {
	case n == 0 && groups:
		s.Type, s.Group = workflow.TypeGroup, d.steps(s.Name+"-", 1+d.rng.IntN(3), false)
	case n == 1 && groups:
		d.slowGroup(s)
	case n == 2 && !d.suspends:
		d.suspends, s.Type = true, workflow.TypeSuspend
		if b.duration = time.Duration(d.rng.IntN(3)) * time.Second; b.duration == 0 && d.rng.IntN(2) == 0 {
			s.TimeLimit, b.never = 3*time.Second, true
		}
	case n == 3:
		s.TimeLimit, b.never, b.looks = 5*time.Second, true, 1
	case n == 4:
		b.never, b.failures = true, 1
	case n == 5:
		b.invalid = true
	case n == 6:
		b.failures = 1 + d.rng.IntN(2)
	case n == 7:
		b.looks = 1 + d.rng.IntN(2)
	default:
		s.Outputs = []api.StepOutput{{Name: "of-" + s.Name}}
	}
	d.behaviors[s.Name] = b
}

// slowGroup makes a step a group that is not done in time.
func (d *drawn) slowGroup(s *workflow.Step) {
	s.Type, s.TimeLimit = workflow.TypeGroup, 3*time.Second
	for i := range 1 + d.rng.IntN(2) {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		s.Group = append(s.Group, workflow.Step{Step: api.Step{Name: name, Type: "apply-component"}})
		d.behaviors[name] = behavior{never: true, looks: 1}
	}
}

// world executes the steps of one workflow until it is finished.
type world struct {
	*drawn
	t        *testing.T
	what     string
	stored   []byte // the status, as the last whole pass left it
	outputs  map[string]json.RawMessage
	tries    map[string]int
	now      time.Time
	attempts map[string]int
	healthy  map[string]int // executions that succeeded
	actions  int
	killAt   int  // the action before which the process is killed; negative: never
	loses    bool // the stored outputs, at that moment
}

var errNever = errors.New("never")

// finish drives the workflow to its end and returns its statuses.
func (d *drawn) finish(t *testing.T, what string, killAt int, loses bool) *world {
	t.Helper()
	w := &world{
		drawn: d, t: t, what: what, killAt: killAt, loses: loses, now: begin,
		outputs: map[string]json.RawMessage{}, tries: map[string]int{}, attempts: map[string]int{}, healthy: map[string]int{},
	}
	w.store(workflow.NewStatus("app-v1", d.graph, w.now))
	for range 200 {
		if w.status().Finished {
			return w
		}
		w.pass()
	}
	t.Fatalf("%s: it does not finish: %s", what, w.stored)
	return nil
}

func (w *world) status() *api.WorkflowStatus {
	out := &api.WorkflowStatus{}
	repotest.NoError(w.t, json.Unmarshal(w.stored, out))
	return out
}

func (w *world) store(s *api.WorkflowStatus) {
	w.stored = repotest.Must(json.Marshal(s))(w.t)
}

// pass is one pass; a killed one stores nothing but the outputs it has saved.
func (w *world) pass() {
	status, m := w.status(), workflow.Memory{Outputs: maps.Clone(w.outputs), Tries: w.tries}
	run := workflow.Start(w.graph, status, m)
	for {
		a := run.Next(w.now)
		if w.actions++; w.actions-1 == w.killAt {
			w.restart()
			return
		}
		switch a.Kind {
		case workflow.Stop:
			w.end(status, a.Wait)
			return
		case workflow.Evaluate:
			w.mayBegin(a.Step, status)
			p := player{status: status}
			runs, err := p.condition(a.Step)
			run.Decide(runs, err, w.now)
		case workflow.Execute:
			w.mayBegin(a.Step, status)
			w.hasInputs(a.Step, workflow.ByName(status), m.Outputs)
			run.Done(w.execute(a.Step), w.now)
		case workflow.Save:
			w.outputs = maps.Clone(m.Outputs)
		}
	}
}

func (w *world) restart() {
	w.tries, w.now = map[string]int{}, w.now.Add(time.Second)
	if w.loses {
		clear(w.outputs)
	}
}

// end stores what a pass came to. A workflow that waits for a user is resumed.
func (w *world) end(status *api.WorkflowStatus, wait time.Duration) {
	if wait == 0 && status.Suspend {
		status.Suspend = false
	} else if wait == 0 && !status.Finished {
		w.t.Fatalf("%s: it waits for nothing: %+v", w.what, status)
	}
	w.store(status)
	w.now = w.now.Add(wait)
}

// mayBegin holds that whatever a step depends on is finished.
func (w *world) mayBegin(s *workflow.Step, status *api.WorkflowStatus) {
	w.t.Helper()
	all := workflow.ByName(status)
	for _, name := range slices.Concat(s.DependsOn, w.before(s.Name)) {
		if is := all[name]; is.Phase == "" || is.Phase == api.StepPending || is.Phase == api.StepRunning || is.Reason == workflow.ReasonTry {
			w.t.Fatalf("%s: step %s begins while %s is %q", w.what, s.Name, name, is.Phase)
		}
	}
}

// hasInputs holds that the outputs that a step takes are known, unless the step that
// gives them did not succeed.
func (w *world) hasInputs(s *workflow.Step, all map[string]api.StepStatus, outputs map[string]json.RawMessage) {
	w.t.Helper()
	for _, in := range s.Inputs {
		if from := strings.TrimPrefix(in.From, "of-"); outputs[in.From] == nil && all[from].Phase == api.StepSucceeded {
			w.t.Fatalf("%s: step %s is executed without its input %s", w.what, s.Name, in.From)
		}
	}
}

// before returns the steps that a step follows where steps run one after the other.
func (w *world) before(name string) (out []string) {
	mode := w.graph.Mode()
	serial := mode.Steps
	prefix, _, within := strings.Cut(name, "-")
	if within {
		serial = mode.SubSteps
	}
	if serial == workflow.DAG {
		return nil
	}
	for _, s := range w.graph.All() {
		if s.Name == name {
			return out
		}
		if group, _, in := strings.Cut(s.Name, "-"); in == within && (!within || group == prefix) {
			out = append(out, s.Name)
		}
	}
	return out
}

func (w *world) execute(s *workflow.Step) workflow.Outcome {
	b := w.behaviors[s.Name]
	w.attempts[s.Name]++
	n := w.attempts[s.Name]
	switch {
	case b.invalid:
		return workflow.Outcome{Invalid: errNever}
	case s.Type != "apply-component":
		return workflow.Outcome{Duration: b.duration}
	case b.failures > 0 && (b.never || n <= b.failures):
		return workflow.Outcome{Err: errNever}
	case b.looks > 0 && (b.never || n <= b.looks):
		return workflow.Outcome{Message: "not ready"}
	}
	w.healthy[s.Name]++
	o := workflow.Outcome{Healthy: true, Outputs: map[string]json.RawMessage{}}
	for _, output := range s.Outputs {
		o.Outputs[output.Name] = json.RawMessage("1")
	}
	return o
}

// phases returns NAME PHASE REASON of all steps in the order of the workflow, and the
// phase of the workflow.
func (w *world) phases() []string {
	status := w.status()
	out, all := []string{status.Phase}, workflow.ByName(status)
	for _, s := range w.graph.All() {
		out = append(out, fmt.Sprintf("%s %s %s", s.Name, all[s.Name].Phase, all[s.Name].Reason))
	}
	return out
}

// TestAnyWorkflow holds, of workflows drawn by chance, that no step begins before what
// it depends on is finished, that each is delivered once, and that a process that is
// killed before some of its actions comes to the same statuses when it is started
// again, with and without the stored outputs.
func TestAnyWorkflow(t *testing.T) {
	for seed := range uint64(120) {
		d := draw(t, seed)
		whole := d.finish(t, fmt.Sprint("seed ", seed), -1, false)
		for name, n := range whole.healthy {
			if n > 1 {
				t.Errorf("seed %d: step %s was delivered %d times", seed, name, n)
			}
		}
		for range 4 {
			at := d.rng.IntN(whole.actions)
			what := fmt.Sprintf("seed %d, killed before action %d", seed, at)
			if got := d.finish(t, what, at, d.rng.IntN(2) == 0).phases(); !slices.Equal(got, whole.phases()) {
				t.Errorf("%s: it is\n%q, want\n%q", what, got, whole.phases())
			}
		}
	}
}
