package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Why a step is in its phase. A failed one is tried again for reasonTry only.
const (
	reasonTry        = "Execute"
	reasonWait       = "Wait"
	reasonSkip       = "Skip"
	reasonSuspend    = "Suspend"
	reasonRetries    = "FailedAfterRetries"
	reasonTimeout    = "Timeout"
	reasonTerminated = "Terminate"
	reasonExpression = "Rendering"
	reasonInput      = "ProcessParameter"
)

// maxPatience is after how many looks an event says of a step that it is not healthy: a
// second apart until then, for what is in order takes one or two.
const maxPatience = 5

// always is the condition of a step that runs whatever became of others.
const always = "always"

// execute runs what can be run of the workflow now. wait is how long to wait until
// there is more to do; 0 for nothing to wait for.
func (p *pass) execute(ctx context.Context, steps []step, mode modes) (wait time.Duration, err error) {
	defer p.c.metrics.stage("execute-workflow")()
	w := p.app.Status.Workflow
	if w == nil || w.AppRevision != p.revisionName() {
		w = &api.WorkflowStatus{AppRevision: p.revisionName(), Mode: mode.steps, Phase: api.WorkflowExecuting, StartTime: metav1.NewTime(p.c.now())}
		if !p.c.o.Features.InMemoryContext {
			w.ContextBackend = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.app.Namespace, Name: contextName(p.app)}
		}
		p.app.Status.Workflow, p.app.Status.Services, p.app.Status.AppliedResources = w, nil, nil
	}
	if err := p.openContext(ctx); err != nil {
		return 0, err
	}
	p.steps, p.within = flat(steps), mode.within
	if w.Terminated { // somebody wrote that
		p.stopAll(w.Steps, reasonTerminated, "somebody ended the workflow")
		w.Suspend, w.Phase, w.Message = false, api.WorkflowHasEnded, "somebody ended it"
	} else if wait, err = p.walkOn(ctx, steps, mode.steps, &w.Steps); err != nil {
		return 0, err
	}
	p.concludeWorkflow(steps)
	return max(wait, 0), nil
}

// walkOn walks until no step is finished any more: one may have waited for one
// behind it.
func (p *pass) walkOn(ctx context.Context, steps []step, mode string, of *[]api.StepStatus) (wait time.Duration, err error) {
	done := -1
	for {
		now := 0
		for _, s := range p.statuses() {
			if finished(s) {
				now++
			}
		}
		if now == done {
			return wait, nil
		}
		done = now
		next, err := p.walk(ctx, steps, mode, of)
		if err != nil {
			return 0, err
		}
		wait = sooner(wait, next)
	}
}

// walk runs what can be run now of some steps: those of the workflow or of a group.
func (p *pass) walk(ctx context.Context, steps []step, mode string, of *[]api.StepStatus) (wait time.Duration, err error) {
	wait = -1
	for i, s := range steps {
		status := p.statusOf(of, s)
		if finished(*status) && !p.lacks(s, *status) {
			continue
		}
		if why := p.pending(s); why != "" {
			status.Message = why
			if mode != modeDAG {
				break
			}
			continue
		}
		if p.taken[s.Name] && s.Type != stepGroup {
			if mode != modeDAG {
				break
			}
			continue // once in a pass is enough
		}
		p.taken[s.Name] = true
		before := s.DependsOn
		if mode != modeDAG {
			for _, o := range steps[:i] {
				before = append(slices.Clip(before), o.Name)
			}
		}
		next, err := p.take(ctx, s, status, p.anyFailed(before, map[string]bool{}))
		if err != nil {
			return 0, err
		}
		wait = sooner(wait, next)
		if mode != modeDAG && !finished(*status) {
			break
		}
	}
	return wait, nil
}

// sooner returns the shorter of two waits; one that is not above 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// statusOf returns the status of a step, which is made where there is none.
func (p *pass) statusOf(of *[]api.StepStatus, s step) *api.StepStatus {
	for i := range *of {
		if (*of)[i].Name == s.Name {
			return &(*of)[i]
		}
	}
	id, err := hashOf(p.app.Status.Workflow.AppRevision + "/" + s.Name)
	if err != nil {
		id = s.Name // a string always has a hash
	}
	*of = append(*of, api.StepStatus{ID: id[:10], Name: s.Name, Type: s.Type, Phase: api.StepPending})
	return &(*of)[len(*of)-1]
}

// statuses are those of all steps that there are, by name.
func (p *pass) statuses() map[string]api.StepStatus {
	out := map[string]api.StepStatus{}
	for _, s := range p.app.Status.Workflow.Steps {
		out[s.Name] = s
		for _, o := range s.SubSteps {
			out[o.Name] = o
		}
	}
	return out
}

// finished says whether a step is not run again.
func finished(s api.StepStatus) bool {
	return s.Phase == api.StepSucceeded || s.Phase == api.StepSkipped || s.Phase == api.StepFailed && s.Reason != reasonTry
}

// pending says what a step waits for before it begins; empty for nothing.
func (p *pass) pending(s step) string {
	all := p.statuses()
	for _, name := range s.DependsOn {
		if !finished(all[name]) {
			return "waits for step " + name
		}
	}
	return ""
}

// anyFailed says whether one of the steps named failed, or one that they depend on.
// One that was skipped by its own condition is as good as done.
func (p *pass) anyFailed(names []string, seen map[string]bool) bool {
	all := p.statuses()
	return slices.ContainsFunc(names, func(name string) bool {
		if seen[name] {
			return false
		}
		seen[name] = true
		if all[name].Phase == api.StepFailed {
			return true
		}
		i := slices.IndexFunc(p.steps, func(s step) bool { return s.Name == name })
		return i >= 0 && p.anyFailed(p.steps[i].DependsOn, seen)
	})
}

// take begins a step or goes on with it. A failure of the step is in its status; an
// error is one of the pass.
func (p *pass) take(ctx context.Context, s step, status *api.StepStatus, failed bool) (wait time.Duration, err error) {
	begin := p.c.o.Clock.Now()
	defer func() {
		p.c.metrics.steps.WithLabelValues("application", s.Type).Observe(float64(p.c.o.Clock.Now().Sub(begin)) / float64(time.Millisecond))
	}()
	first := status.FirstExecuteTime.IsZero()
	if first {
		runs, err := p.wanted(s, failed)
		if err != nil {
			p.fail(s, status, reasonExpression, err)
			return 0, nil
		}
		status.Message = "" // that it waited for others
		if !runs {
			status.Phase, status.Reason = api.StepSkipped, reasonSkip
			p.stopWithin(s, status, reasonSkip, "")
			return 0, nil
		}
	}
	now := metav1.NewTime(p.c.now())
	if first {
		status.FirstExecuteTime = now
	}
	status.LastExecuteTime = now
	if left := p.left(status, s.timeout); left <= 0 {
		p.timeOut(s, status)
		return 0, nil
	}
	if wait, err = p.run(ctx, s, status, first); err != nil || finished(*status) {
		return wait, err
	}
	if s.timeout > 0 { // if it passed while the step ran, the next second ends the step
		wait = sooner(wait, max(p.left(status, s.timeout), time.Second))
	}
	return wait, nil
}

// left returns how long a step has until so long after its begin, in the whole
// seconds in which status has times; without a bound, always something.
func (p *pass) left(status *api.StepStatus, of time.Duration) time.Duration {
	if of == 0 {
		return 1
	}
	return status.FirstExecuteTime.Truncate(time.Second).Add(of).Sub(p.c.now().Truncate(time.Second))
}

// run runs a step once.
func (p *pass) run(ctx context.Context, s step, status *api.StepStatus, first bool) (wait time.Duration, err error) {
	s, err = p.fill(s)
	if err != nil {
		p.fail(s, status, reasonInput, err)
		return 0, nil
	}
	switch s.Type {
	case stepSuspend:
		return p.suspend(ctx, s, status, first)
	case stepGroup:
		return p.runGroup(ctx, s, status, first)
	}
	name := p.revisionName() + "/" + s.Name
	var ok bool
	var message string
	var failed error
	if s.deploy != nil {
		ok, message, failed = p.deploy(ctx, *s.deploy)
	} else {
		ok, message, failed = p.bring(ctx, *s.component, s.at)
	}
	gave := false
	if ok && failed == nil {
		gave, failed = p.give(s)
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return 0, failed
	case failed != nil:
		tries := p.c.memory.again(p.key, name)
		status.Phase, status.Reason, status.Message = api.StepFailed, reasonTry, failed.Error()
		wait = stepWait(tries, maxFailing)
		if tries >= maxTries {
			wait = 0
			p.fail(s, status, reasonRetries, fmt.Errorf("%s failed: %w", unit.Count(tries, "tries"), failed))
			p.c.memory.done(p.key, name)
		} else {
			p.c.events.Event(p.app, corev1.EventTypeWarning, "FailedWorkflow", failed.Error())
			p.c.o.Log.Info("step failed and is tried again", "application", p.key, "step", s.Name, "try", tries, "err", failed)
		}
	case !ok:
		status.Phase, status.Reason, status.Message = api.StepRunning, reasonWait, message
		tries := p.c.memory.again(p.key, name)
		wait = stepWait(tries, maxWait)
		if tries == maxPatience {
			why := cmp.Or(message, "its definition does not say why")
			p.event(corev1.EventTypeWarning, "FailedHealthCheck", fmt.Sprintf("step %s waits for health: %s", s.Name, why))
			p.c.o.Log.Info("step waits for health", "application", p.key, "step", s.Name, "message", why)
		}
	default:
		status.Phase, status.Reason, status.Message = api.StepSucceeded, "", ""
		p.c.memory.done(p.key, name)
	}
	return wait, p.saveContext(ctx, s.Name, first || gave)
}

// fail ends a step for good, and says so in the status of the workflow.
func (p *pass) fail(s step, status *api.StepStatus, reason string, why error) {
	status.Phase, status.Reason, status.Message = api.StepFailed, reason, why.Error()
	p.stopWithin(s, status, reason, "its group ended")
	if w := p.app.Status.Workflow; w.Message == "" {
		w.Message = fmt.Sprintf("step %s: %v", s.Name, why)
	}
	p.c.events.Event(p.app, corev1.EventTypeWarning, "FailedWorkflow", fmt.Sprintf("step %s: %v", s.Name, why))
	p.c.o.Log.Warn("step failed", "application", p.key, "step", s.Name, "reason", reason, "err", why)
}

// timeOut ends a step that took too long, with all that is under way within it.
func (p *pass) timeOut(s step, status *api.StepStatus) {
	last := ""
	if status.Message != "" {
		last = ": " + status.Message
	}
	p.stopWithin(s, status, reasonTimeout, fmt.Sprintf("its group was not done within %v", s.timeout))
	p.resume(s.Type)
	p.fail(s, status, reasonTimeout, fmt.Errorf("not done within %v%s", s.timeout, last))
	p.c.memory.done(p.key, p.revisionName()+"/"+s.Name)
}

// stopWithin ends the steps within a step, those too that nobody looked at yet.
func (p *pass) stopWithin(s step, status *api.StepStatus, reason, message string) {
	for _, o := range s.group {
		p.statusOf(&status.SubSteps, o)
	}
	p.stopAll(status.SubSteps, reason, message)
}

// stopAll ends steps that are not finished: what has begun failed, the rest is skipped.
func (p *pass) stopAll(all []api.StepStatus, reason, message string) {
	for i := range all {
		s := &all[i]
		p.stopAll(s.SubSteps, reason, message)
		switch {
		case finished(*s):
		case s.FirstExecuteTime.IsZero():
			s.Phase, s.Reason, s.Message = api.StepSkipped, reasonSkip, ""
		default:
			s.Phase, s.Reason, s.Message = api.StepFailed, reason, message
			p.resume(s.Type)
		}
	}
}

// resume lets a workflow go on that a step of the type holds.
func (p *pass) resume(kind string) {
	if w := p.app.Status.Workflow; kind == stepSuspend {
		w.Suspend, w.Phase = false, api.WorkflowExecuting
	}
}

// suspend stops a workflow until somebody takes status.workflow.suspend back, or the
// step's duration is over.
func (p *pass) suspend(ctx context.Context, s step, status *api.StepStatus, first bool) (wait time.Duration, err error) {
	w := p.app.Status.Workflow
	if first {
		w.Suspend, status.Phase, status.Reason = true, api.StepRunning, reasonSuspend
		w.Phase = api.WorkflowSuspended
		status.Message = "suspends the workflow until somebody resumes it"
		if s.lasts > 0 {
			status.Message = fmt.Sprintf("suspends the workflow for %v", s.lasts)
		}
		p.event(corev1.EventTypeWarning, "WorkflowSuspended", fmt.Sprintf("step %s %s", s.Name, status.Message))
		p.c.o.Log.Info("workflow is suspended", "application", p.key, "step", s.Name, "message", status.Message)
		err = p.saveContext(ctx, status.Name, first)
	}
	if s.lasts > 0 {
		if wait = p.left(status, s.lasts); wait <= 0 {
			p.resume(s.Type)
		}
	}
	if !w.Suspend {
		wait, status.Phase, status.Reason, status.Message, w.Phase = 0, api.StepSucceeded, "", "", api.WorkflowExecuting
	}
	return wait, err
}

// runGroup runs the steps within a step, which is as good as they are.
func (p *pass) runGroup(ctx context.Context, s step, status *api.StepStatus, first bool) (wait time.Duration, err error) {
	status.Phase = api.StepRunning
	if wait, err = p.walk(ctx, s.group, p.within, &status.SubSteps); err != nil {
		return 0, err
	}
	if over, failed := outcome(s.group, status.SubSteps); over {
		wait, status.Phase, status.Reason = 0, api.StepSucceeded, ""
		if failed {
			status.Phase, status.Reason = api.StepFailed, reasonRetries
		}
	}
	return wait, p.saveContext(ctx, s.Name, first)
}

// outcome says whether all steps are finished, and whether one of them failed.
func outcome(steps []step, all []api.StepStatus) (over, failed bool) {
	done := 0
	for _, s := range all {
		if finished(s) {
			done++
		}
		failed = failed || s.Phase == api.StepFailed
	}
	return done == len(steps), failed
}

// concludeWorkflow says whether the workflow is over.
func (p *pass) concludeWorkflow(steps []step) {
	w := p.app.Status.Workflow
	over, failed := outcome(steps, w.Steps)
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
	end := metav1.NewTime(p.c.now())
	w.EndTime = &end
	p.c.metrics.workflows.WithLabelValues(w.Phase).Observe(end.Sub(w.StartTime.Time).Seconds())
}
