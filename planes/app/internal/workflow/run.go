package workflow

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Kind says what an action asks the driver to do.
type Kind int

// The kinds of actions.
const (
	Stop     Kind = iota // end the pass; the next one is due after Action.Wait, 0 for no time of its own
	Evaluate             // evaluate the step's condition, then call Decide
	Execute              // execute the step, then call Done
	Save                 // store that the step ran, and the outputs of all steps
	Report               // report Action.Report to users
	Leave                // nothing: the step is through until the next walk
)

// Action is what the driver has to do next.
type Action struct {
	Kind   Kind
	Step   *Step
	Report *Problem
	Wait   time.Duration
}

// Outcome is what came of the execution of a step.
type Outcome struct {
	Invalid  error         // the inputs of the step cannot be used: the step fails for good
	Err      error         // the execution failed: the step is tried again
	Healthy  bool          // what the step delivers is there and healthy
	Message  string        // about what is not healthy
	Duration time.Duration // for how long a step of TypeSuspend suspends; 0: until it is resumed
	Outputs  map[string]json.RawMessage
}

// Memory is what a workflow knows beside the statuses. A Run changes it.
type Memory struct {
	Outputs map[string]json.RawMessage // of steps, by name of the output
	Tries   map[string]int             // failures or looks in a row, by name of the step
}

// Run is one pass over the workflow of one revision. Call Next until it returns Stop,
// and answer Evaluate with Decide and Execute with Done before the next call.
//
// A Run can be abandoned at any time. The next one begins with the statuses that were
// stored last, and executes again what is not finished in them.
type Run struct {
	graph  *Graph
	status *api.WorkflowStatus
	memory Memory
	now    time.Time

	places  []place // in the order of a walk
	at      int     // the next place
	current *place  // of the step that has begun and is not left yet
	outcome Outcome // of the current step
	wait    time.Duration
	queue   []Action

	visited  map[string]bool // in this pass, by step
	first    map[string]bool // the step runs for the first time
	finished int             // steps that were finished when the walk began
	stopped  bool
}

// place is one place in a walk: a step, or the end of a group.
type place struct {
	step       *Step
	group      *Step    // that the step is in; nil: none
	before     []string // steps that it follows, where steps run one after the other
	serial     bool
	ends       bool // the end of the group: all steps within it have been walked
	index      int
	next, skip int // the places after the step, and after the list that the step is in
}

// NewStatus returns the status of a workflow that has not begun.
func NewStatus(revision string, g *Graph, now time.Time) *api.WorkflowStatus {
	return &api.WorkflowStatus{AppRevision: revision, Mode: g.mode.Steps, Phase: api.WorkflowExecuting, StartTime: metav1.NewTime(now)}
}

// Start begins a pass. It changes status and m.
func Start(g *Graph, status *api.WorkflowStatus, m Memory) *Run {
	r := &Run{graph: g, status: status, memory: m, visited: map[string]bool{}, first: map[string]bool{}, finished: -1}
	r.addPlaces(g.steps, g.mode.Steps, nil)
	r.at = len(r.places)
	if status.Terminated { // by a user
		r.stopAll(status.Steps, ReasonTerminated, "somebody ended the workflow")
		status.Suspend, status.Phase, status.Message = false, api.WorkflowHasEnded, "somebody ended it"
		r.finished = r.countFinished()
	}
	return r
}

func (r *Run) addPlaces(steps []Step, mode string, group *Step) {
	var before []string
	begin, serial := len(r.places), mode != DAG
	for i := range steps {
		s, index := &steps[i], len(r.places)
		r.places = append(r.places, place{step: s, group: group, serial: serial, before: slices.Clip(before)})
		if s.Type == TypeGroup {
			r.addPlaces(s.Group, r.graph.mode.SubSteps, s)
			r.places = append(r.places, place{step: s, group: group, serial: serial, ends: true, next: len(r.places) + 1})
		}
		r.places[index].index, r.places[index].next = index, len(r.places)
		if serial {
			before = append(before, s.Name)
		}
	}
	for i := begin; i < len(r.places); i++ {
		if r.places[i].group == group {
			r.places[i].skip = len(r.places)
		}
	}
}

// Next returns the next action.
func (r *Run) Next(now time.Time) Action {
	r.now = now
	for len(r.queue) == 0 {
		r.advanceRun()
	}
	a := r.queue[0]
	r.queue = r.queue[1:]
	return a
}

func (r *Run) pushAction(a Action) { r.queue = append(r.queue, a) }

func (r *Run) advanceRun() {
	switch {
	case r.current != nil:
		r.leaveStep()
	case r.at == len(r.places):
		r.walkAgain()
	case r.places[r.at].ends:
		r.endGroup(&r.places[r.at])
	default:
		r.visitStep(&r.places[r.at])
	}
}

// walkAgain begins a walk from the first step, until a walk finishes no more steps: a
// step may have waited for one behind it.
func (r *Run) walkAgain() {
	n := r.countFinished()
	if n != r.finished {
		r.finished, r.at = n, 0
		return
	}
	if !r.stopped {
		r.stopped = true
		r.concludeWorkflow()
	}
	r.pushAction(Action{Kind: Stop, Wait: r.wait})
}

func (r *Run) countFinished() (n int) {
	for _, s := range ByName(r.status) {
		if isFinished(s) {
			n++
		}
	}
	return n
}

// concludeWorkflow finishes the workflow if all steps are finished.
func (r *Run) concludeWorkflow() {
	w := r.status
	over, failed := summarizeSteps(w.Steps, len(r.graph.steps))
	switch {
	case w.Phase == api.WorkflowHasEnded:
	case over && failed:
		w.Phase = api.WorkflowHasFailed
	case over:
		w.Phase, w.Message = api.WorkflowSucceeded, ""
	default:
		return
	}
	w.Finished, w.Terminated = true, w.Phase != api.WorkflowSucceeded
	end := metav1.NewTime(r.now)
	w.EndTime = &end
}

// visitStep begins a step or goes on with it, unless it is finished or has to wait.
func (r *Run) visitStep(p *place) {
	s, status := p.step, r.statusOf(p)
	r.at = p.next
	if isFinished(*status) && !r.lacksOutputs(s, status) {
		return
	}
	waits := r.unfinishedDependency(s)
	if waits != "" {
		status.Message = "waits for step " + waits
	}
	if waits != "" || r.visited[s.Name] && s.Type != TypeGroup { // once in a pass is enough
		r.skipList(p)
		return
	}
	r.visited[s.Name] = true
	r.current = p
	r.first[s.Name] = status.FirstExecuteTime.IsZero()
	if !r.first[s.Name] {
		r.executeStep()
		return
	}
	switch s.If {
	case "":
		r.beginStep(!r.anyFailed(slices.Concat(s.DependsOn, p.before), map[string]bool{}))
	case Always:
		r.beginStep(true)
	default:
		r.pushAction(Action{Kind: Evaluate, Step: s})
	}
}

// skipList ends the walk of a list whose steps run one after the other.
func (r *Run) skipList(p *place) {
	if p.serial {
		r.at = p.skip
	}
}

// statusOf returns the status of the step at a place, which is made if there is none.
func (r *Run) statusOf(p *place) *api.StepStatus {
	all := &r.status.Steps
	if p.group != nil {
		all = &ensureStatus(all, p.group, r.status.AppRevision).SubSteps
	}
	return ensureStatus(all, p.step, r.status.AppRevision)
}

// lacksOutputs says whether a step succeeded and its outputs are not known any more:
// the process that ran it was killed before they were stored, or the store is gone.
func (r *Run) lacksOutputs(s *Step, status *api.StepStatus) bool {
	return status.Phase == api.StepSucceeded && slices.ContainsFunc(s.Outputs, func(o api.StepOutput) bool { return r.memory.Outputs[o.Name] == nil })
}

// unfinishedDependency returns the first step that a step waits for; empty for none.
func (r *Run) unfinishedDependency(s *Step) string {
	all := ByName(r.status)
	for _, name := range s.DependsOn {
		if !isFinished(all[name]) {
			return name
		}
	}
	return ""
}

// anyFailed says whether one of the steps failed, or one that they depend on. A step
// that was skipped by its own condition counts as done.
func (r *Run) anyFailed(names []string, seen map[string]bool) bool {
	all := ByName(r.status)
	return slices.ContainsFunc(names, func(name string) bool {
		if seen[name] {
			return false
		}
		seen[name] = true
		if all[name].Phase == api.StepFailed {
			return true
		}
		s := r.graph.byName[name]
		return s != nil && r.anyFailed(s.DependsOn, seen)
	})
}

// Decide answers Evaluate: whether the current step runs.
func (r *Run) Decide(runs bool, err error, now time.Time) {
	r.now = now
	if err != nil {
		r.failStep(ReasonExpression, err)
		return
	}
	r.beginStep(runs)
}

// beginStep executes the current step for the first time, or skips it.
func (r *Run) beginStep(runs bool) {
	status := r.statusOf(r.current)
	status.Message = "" // that it waited for others
	if runs {
		r.executeStep()
		return
	}
	status.Phase, status.Reason = api.StepSkipped, ReasonSkip
	r.stopGroup(status, ReasonSkip, "")
}

// executeStep lets the current step be executed, unless its time is over.
func (r *Run) executeStep() {
	s, status := r.current.step, r.statusOf(r.current)
	status.LastExecuteTime = metav1.NewTime(r.now)
	if r.first[s.Name] {
		status.FirstExecuteTime = status.LastExecuteTime
	}
	if s.TimeLimit > 0 && r.remainingTime(status, s.TimeLimit) <= 0 {
		r.timeOut()
		return
	}
	r.pushAction(Action{Kind: Execute, Step: s})
}

// remainingTime returns how long a step has until so long after its begin, in the whole
// seconds in which statuses hold times.
func (r *Run) remainingTime(status *api.StepStatus, limit time.Duration) time.Duration {
	return status.FirstExecuteTime.Truncate(time.Second).Add(limit).Sub(r.now.Truncate(time.Second))
}

// leaveStep ends the visit of the current step and notes how long it waits.
func (r *Run) leaveStep() {
	p, status, wait := r.current, r.statusOf(r.current), time.Duration(0)
	r.current = nil
	if !isFinished(*status) {
		wait = r.waitOf(p.step, status)
	}
	if !isFinished(*status) {
		if p.step.TimeLimit > 0 { // if it passed while the step ran, the next second ends the step
			wait = minWait(wait, max(r.remainingTime(status, p.step.TimeLimit), time.Second))
		}
		r.skipList(p)
	}
	r.wait = minWait(r.wait, wait)
	r.pushAction(Action{Kind: Leave, Step: p.step})
}

// waitOf returns how long an unfinished step waits for its next try.
func (r *Run) waitOf(s *Step, status *api.StepStatus) time.Duration {
	switch {
	case s.Type == TypeGroup: // its steps have waits of their own
		return 0
	case s.Type == TypeSuspend:
		return r.elapseSuspension(s, status)
	case status.Phase == api.StepFailed:
		return tryWait(r.memory.Tries[s.Name], maxFailing)
	}
	return tryWait(r.memory.Tries[s.Name], maxWait)
}
