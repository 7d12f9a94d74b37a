package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// execution carries out the workflow of a revision.
type execution struct {
	app      *application
	plan     *plan.Plan
	graph    *workflow.Graph
	delivery *delivery
	context  *contextStore // nil: in memory
	memory   workflow.Memory
	begun    map[string]clock.Time // by step that is under way
}

func newExecution(app *application, p *plan.Plan, g *workflow.Graph, t *trackers) *execution {
	e := &execution{
		app: app, plan: p, graph: g, begun: map[string]clock.Time{}, memory: app.c.memory.workflowOf(app.key, p.Revision),
		delivery: &delivery{app: app, plan: p, trackers: t, observes: g.HasOutputs()},
	}
	if !app.c.o.Features.InMemoryContext {
		e.context = &contextStore{app: app, revision: p.Revision, outputs: e.memory.Outputs}
	}
	return e
}

// executeWorkflow runs what can be run of the workflow now. wait is how long to wait until
// there is more to do; 0 for nothing to wait for.
func (e *execution) executeWorkflow(ctx context.Context) (wait time.Duration, err error) {
	defer e.app.c.metrics.timeStage("execute-workflow")()
	w := e.beginWorkflow()
	if e.context != nil {
		if err := e.context.openContext(ctx); err != nil {
			return 0, err
		}
	}
	defer e.keepMemory()
	if wait, err = e.driveRun(ctx, workflow.Start(e.graph, w, e.memory)); err != nil {
		return 0, err
	}
	if w.Finished {
		e.app.c.metrics.workflows.WithLabelValues(w.Phase).Observe(w.EndTime.Sub(w.StartTime.Time).Seconds())
	}
	return wait, nil
}

// keepMemory keeps for the next pass what is stored nowhere else.
func (e *execution) keepMemory() {
	m := e.memory
	if e.context != nil {
		m.Outputs = nil
	}
	e.app.c.memory.keepWorkflow(e.app.key, e.plan.Revision, m)
}

// beginWorkflow returns the status of the workflow, a new one for a new revision.
func (e *execution) beginWorkflow() *api.WorkflowStatus {
	s := &e.app.object.Status
	if s.Workflow != nil && s.Workflow.AppRevision == e.plan.Revision {
		return s.Workflow
	}
	s.Workflow, s.Services, s.AppliedResources = workflow.NewStatus(e.plan.Revision, e.graph, e.app.c.o.Now()), nil, nil
	if e.context != nil {
		s.Workflow.ContextBackend = &corev1.ObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: e.app.object.Namespace, Name: contextName(e.app.object),
		}
	}
	return s.Workflow
}

// driveRun carries out what a run decides. A failure of a step is in its status; an error
// is one of the pass.
func (e *execution) driveRun(ctx context.Context, run *workflow.Run) (wait time.Duration, err error) {
	for {
		a := run.Next(e.app.c.o.Now())
		switch a.Kind {
		case workflow.Stop:
			return a.Wait, nil
		case workflow.Evaluate:
			e.noteVisit(a.Step)
			runs, err := e.plan.Condition(a.Step, workflow.ByName(e.app.object.Status.Workflow), e.memory.Outputs)
			run.Decide(runs, err, e.app.c.o.Now())
		case workflow.Execute:
			e.noteVisit(a.Step)
			outcome := e.runStep(ctx, a.Step)
			if outcome.Err != nil && ctx.Err() != nil {
				return 0, outcome.Err
			}
			run.Done(outcome, e.app.c.o.Now())
		case workflow.Save:
			if e.context == nil {
				continue
			}
			if err := e.context.saveStep(ctx, a.Step.Name); err != nil {
				return 0, err
			}
		case workflow.Report:
			e.reportProblem(a)
		case workflow.Leave:
			e.app.c.metrics.showStep(a.Step.Type, e.begun[a.Step.Name])
			delete(e.begun, a.Step.Name)
		}
	}
}

// noteVisit notes when the visit of a step began.
func (e *execution) noteVisit(s *workflow.Step) {
	if e.begun[s.Name] == 0 {
		e.begun[s.Name] = e.app.c.o.Clock.Now()
	}
}

// runStep executes a step once.
func (e *execution) runStep(ctx context.Context, s *workflow.Step) (o workflow.Outcome) {
	t, err := e.plan.Fill(s, e.memory.Outputs)
	if err != nil {
		return workflow.Outcome{Invalid: err}
	}
	switch {
	case t.Deploy != nil:
		o.Healthy, o.Message, o.Err = e.delivery.deployComponents(ctx, *t.Deploy)
	case t.Component != nil:
		o.Healthy, o.Message, o.Err = e.delivery.applyComponent(ctx, *t.Component, t.At)
	default:
		return workflow.Outcome{Duration: t.Duration}
	}
	if o.Healthy && o.Err == nil {
		o.Outputs, o.Err = e.plan.Outputs(s, t, e.delivery.observedObjects(t))
	}
	return o
}

// reportProblem tells users about a step, in an event and a line of the log.
func (e *execution) reportProblem(a workflow.Action) {
	r := a.Report
	e.app.recordEvent(corev1.EventTypeWarning, r.Event, r.Message)
	log := e.app.c.o.Log.With("application", e.app.key, "step", a.Step.Name, "message", r.Message)
	switch {
	case r.Fatal:
		log.Warn(r.Log)
	case r.Tries > 0:
		log.Info(r.Log, "try", r.Tries)
	default:
		log.Info(r.Log)
	}
}
