package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// execute runs what can be run of the workflow now. wait is how long to wait until
// there is more to do; 0 for nothing to wait for.
func (p *pass) execute(ctx context.Context) (wait time.Duration, err error) {
	defer p.c.metrics.stage("execute-workflow")()
	revision := p.revisionName()
	w := p.app.Status.Workflow
	if w == nil || w.AppRevision != revision {
		w = workflow.NewStatus(revision, p.graph, p.c.now())
		if !p.c.o.Features.InMemoryContext {
			w.ContextBackend = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.app.Namespace, Name: contextName(p.app)}
		}
		p.app.Status.Workflow, p.app.Status.Services, p.app.Status.AppliedResources = w, nil, nil
	}
	if err := p.openContext(ctx); err != nil {
		return 0, err
	}
	tries := p.c.memory.triesOf(p.key, revision)
	defer p.c.memory.keepTries(p.key, revision, tries)
	if wait, err = p.drive(ctx, workflow.Start(p.graph, w, workflow.Memory{Outputs: p.values, Tries: tries})); err != nil {
		return 0, err
	}
	if w.Finished {
		p.c.metrics.workflows.WithLabelValues(w.Phase).Observe(w.EndTime.Sub(w.StartTime.Time).Seconds())
	}
	return wait, nil
}

// drive carries out what a run decides. A failure of a step is in its status; an error
// is one of the pass.
func (p *pass) drive(ctx context.Context, run *workflow.Run) (wait time.Duration, err error) {
	begun := map[string]clock.Time{}
	for {
		a := run.Next(p.c.now())
		switch a.Kind {
		case workflow.Stop:
			return a.Wait, nil
		case workflow.Evaluate:
			begun[a.Step.Name] = p.c.o.Clock.Now()
			runs, err := p.plan.Condition(a.Step, workflow.ByName(p.app.Status.Workflow), p.values)
			run.Decide(runs, err, p.c.now())
		case workflow.Execute:
			if begun[a.Step.Name] == 0 {
				begun[a.Step.Name] = p.c.o.Clock.Now()
			}
			outcome := p.runStep(ctx, a.Step)
			if outcome.Err != nil && ctx.Err() != nil {
				return 0, outcome.Err
			}
			run.Done(outcome, p.c.now())
		case workflow.Save:
			if err := p.saveContext(ctx, a.Step.Name); err != nil {
				return 0, err
			}
		case workflow.Report:
			p.report(a)
		case workflow.Leave:
			p.c.metrics.showStep(a.Step.Type, begun[a.Step.Name])
			delete(begun, a.Step.Name)
		}
	}
}

// runStep executes a step once.
func (p *pass) runStep(ctx context.Context, s *workflow.Step) (o workflow.Outcome) {
	t, err := p.plan.Fill(s, p.values)
	if err != nil {
		return workflow.Outcome{Invalid: err}
	}
	switch {
	case t.Deploy != nil:
		o.Healthy, o.Message, o.Err = p.deploy(ctx, *t.Deploy)
	case t.Component != nil:
		o.Healthy, o.Message, o.Err = p.applyComponent(ctx, *t.Component, t.At)
	default:
		return workflow.Outcome{Duration: t.Duration}
	}
	if o.Healthy && o.Err == nil {
		made := plan.Objects{}
		if t.Component != nil {
			made = p.observed(t.Component.Name, t.At)
		}
		o.Outputs, o.Err = p.plan.Outputs(s, t, made)
	}
	return o
}

// report tells users about a step, in an event and a line of the log.
func (p *pass) report(a workflow.Action) {
	r := a.Report
	p.event(corev1.EventTypeWarning, r.Event, r.Message)
	log := p.c.o.Log.With("application", p.key, "step", a.Step.Name, "message", r.Message)
	switch {
	case r.Fatal:
		log.Warn(r.Log)
	case r.Tries > 0:
		log.Info(r.Log, "try", r.Tries)
	default:
		log.Info(r.Log)
	}
}
