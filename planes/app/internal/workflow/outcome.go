package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Problem is what users are told about a step, as an event and a line of the log.
type Problem struct {
	Event   string // reason of the event
	Message string // of the event
	Log     string // constant message of the log
	Tries   int    // of the step so far; 0: not counted
	Fatal   bool   // the step has failed for good
}

// Reasons of events.
const (
	EventFailed    = "FailedWorkflow"
	EventUnhealthy = "FailedHealthCheck"
	EventSuspended = "WorkflowSuspended"
)

func (r *Run) pushReport(p Problem) {
	r.pushAction(Action{Kind: Report, Step: r.current.step, Report: &p})
}

// Done answers Execute: what came of the current step.
func (r *Run) Done(o Outcome, now time.Time) {
	r.now, r.outcome = now, o
	s, status := r.current.step, r.statusOf(r.current)
	switch {
	case o.Invalid != nil:
		r.failStep(ReasonInput, o.Invalid)
		return
	case s.Type == TypeGroup:
		status.Phase = api.StepRunning
		r.at, r.current = r.current.index+1, nil
		return // the end of the group saves it
	case s.Type == TypeSuspend:
		if r.first[s.Name] {
			r.suspendWorkflow(s, status)
		}
	case o.Err != nil:
		r.failTry(s, status)
	case !o.Healthy:
		r.awaitHealth(s, status)
	default:
		r.succeedStep(status)
		maps.Copy(r.memory.Outputs, o.Outputs)
		delete(r.memory.Tries, s.Name)
	}
	r.saveStep(len(o.Outputs) > 0)
}

// saveStep stores what the current step changed: that it ran, or its outputs.
func (r *Run) saveStep(changed bool) {
	if s := r.current.step; changed || r.first[s.Name] {
		r.pushAction(Action{Kind: Save, Step: s})
	}
}

func (r *Run) succeedStep(status *api.StepStatus) {
	status.Phase, status.Reason, status.Message = api.StepSucceeded, "", ""
}

// failTry notes a failed try. The last one ends the step.
func (r *Run) failTry(s *Step, status *api.StepStatus) {
	r.memory.Tries[s.Name]++
	tries, err := r.memory.Tries[s.Name], r.outcome.Err
	if tries >= maxTries {
		r.failStep(ReasonRetries, fmt.Errorf("%s failed: %w", unit.Count(tries, "tries"), err))
		return
	}
	status.Phase, status.Reason, status.Message = api.StepFailed, ReasonTry, err.Error()
	r.pushReport(Problem{Event: EventFailed, Message: err.Error(), Log: "step failed and is tried again", Tries: tries})
}

// awaitHealth notes that what the step delivers is not healthy yet.
func (r *Run) awaitHealth(s *Step, status *api.StepStatus) {
	r.memory.Tries[s.Name]++
	status.Phase, status.Reason, status.Message = api.StepRunning, ReasonWait, r.outcome.Message
	if r.memory.Tries[s.Name] == maxPatience {
		why := cmp.Or(r.outcome.Message, "its definition does not say why")
		r.pushReport(Problem{Event: EventUnhealthy, Message: fmt.Sprintf("step %s waits for health: %s", s.Name, why), Log: "step waits for health"})
	}
}

// failStep ends the current step for good, and says so in the status of the workflow.
func (r *Run) failStep(reason string, why error) {
	s, status := r.current.step, r.statusOf(r.current)
	delete(r.memory.Tries, s.Name)
	status.Phase, status.Reason, status.Message = api.StepFailed, reason, why.Error()
	r.stopGroup(status, reason, "its group ended")
	message := fmt.Sprintf("step %s: %v", s.Name, why)
	r.status.Message = cmp.Or(r.status.Message, message)
	r.pushReport(Problem{Event: EventFailed, Message: message, Log: "step failed", Fatal: true})
}

// timeOut ends the current step, which took too long, with all that is under way
// within it.
func (r *Run) timeOut() {
	s, status := r.current.step, r.statusOf(r.current)
	last := ""
	if status.Message != "" {
		last = ": " + status.Message
	}
	r.stopGroup(status, ReasonTimeout, fmt.Sprintf("its group was not done within %v", s.TimeLimit))
	r.resumeWorkflow(s.Type)
	r.failStep(ReasonTimeout, fmt.Errorf("not done within %v%s", s.TimeLimit, last))
}

// stopGroup ends the steps within the current step, those too that were never visited.
func (r *Run) stopGroup(status *api.StepStatus, reason, message string) {
	group := r.current.step.Group
	for i := range group {
		ensureStatus(&status.SubSteps, &group[i], r.status.AppRevision)
	}
	r.stopAll(status.SubSteps, reason, message)
}

// stopAll ends steps that are not finished: those that have begun fail, the others
// are skipped.
func (r *Run) stopAll(all []api.StepStatus, reason, message string) {
	for i := range all {
		s := &all[i]
		r.stopAll(s.SubSteps, reason, message)
		switch {
		case isFinished(*s):
		case s.FirstExecuteTime.IsZero():
			s.Phase, s.Reason, s.Message = api.StepSkipped, ReasonSkip, ""
		default:
			s.Phase, s.Reason, s.Message = api.StepFailed, reason, message
			r.resumeWorkflow(s.Type)
		}
	}
}

// suspendWorkflow stops the workflow until a user takes status.workflow.suspend back, or until
// the duration of the step is over.
func (r *Run) suspendWorkflow(s *Step, status *api.StepStatus) {
	r.status.Suspend, r.status.Phase = true, api.WorkflowSuspended
	status.Phase, status.Reason = api.StepRunning, ReasonSuspend
	status.Message = "suspends the workflow until somebody resumes it"
	if d := r.outcome.Duration; d > 0 {
		status.Message = fmt.Sprintf("suspends the workflow for %v", d)
	}
	r.pushReport(Problem{Event: EventSuspended, Message: fmt.Sprintf("step %s %s", s.Name, status.Message), Log: "workflow is suspended"})
}

// elapseSuspension resumes the workflow if the duration of a suspend step is over, and returns
// how long that takes; 0 for a step without a duration.
func (r *Run) elapseSuspension(s *Step, status *api.StepStatus) (wait time.Duration) {
	if r.outcome.Duration > 0 {
		if wait = r.remainingTime(status, r.outcome.Duration); wait <= 0 {
			r.resumeWorkflow(s.Type)
		}
	}
	if r.status.Suspend {
		return wait
	}
	r.succeedStep(status)
	r.status.Phase = api.WorkflowExecuting
	return 0
}

// resumeWorkflow lets a workflow go on that a step of the type holds.
func (r *Run) resumeWorkflow(kind string) {
	if kind == TypeSuspend {
		r.status.Suspend, r.status.Phase = false, api.WorkflowExecuting
	}
}

// endGroup makes a group what its steps are.
func (r *Run) endGroup(p *place) {
	r.at, r.current = p.next, p
	status := r.statusOf(p)
	if over, failed := summarizeSteps(status.SubSteps, len(p.step.Group)); over {
		status.Phase, status.Reason = api.StepSucceeded, ""
		if failed {
			status.Phase, status.Reason = api.StepFailed, ReasonRetries
		}
	}
	r.saveStep(false)
}
