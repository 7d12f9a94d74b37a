package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// garbageRetry is how long it takes until garbage is looked after again.
const garbageRetry = 3 * time.Second

// kubevela is the version that the plane stands for.
const kubevela = "v1.8.0"

// pass is one pass over one application. It conducts: plan says what the application
// asks for, its revision, trackers and garbage read and write what the server holds of
// it, and an execution carries out its workflow.
type pass struct {
	c         *Controller
	app       *application
	plan      *plan.Plan
	revisions *revisions
	trackers  *trackers
	garbage   *garbage
}

// reconcile brings one application a step further.
func (c *Controller) reconcile(ctx context.Context, key string) error {
	if !c.unseen.Begin(key) {
		return nil // it goes on when the caches show what this controller wrote
	}
	defer c.unseen.End(key)
	app := slim.Get[*api.Application](c.applications, key)
	if app == nil {
		c.memory.forgetApplication(key)
		c.drift.forgetApplication(key)
		c.unseen.Forget(key)
		c.metrics.showApplication(key, nil)
		return nil
	}
	p := &pass{c: c, app: &application{c: c, key: key, object: app.Copy(), stored: app.Status}}
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	begin := c.o.Clock.Now()
	err := p.runPass(ctx)
	c.metrics.passes.WithLabelValues(string(app.Status.Phase), string(p.app.object.Status.Phase)).Observe(c.metrics.secondsSince(begin))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w (%w)", err, loop.ErrQuiet)
	}
	return err
}

func (p *pass) runPass(ctx context.Context) error {
	if waits, err := (adoption{p.app}).adoptMoved(ctx); err != nil || waits {
		return err
	}
	if p.app.object.DeletionTimestamp != nil {
		return p.deleteApplication(ctx)
	}
	if !slices.Contains(p.app.object.Finalizers, api.FinalizerApplication) {
		return p.addFinalizer(ctx)
	}
	done := p.c.metrics.timeStage("create-app-handler")
	p.findTrackers()
	done()
	if err := p.buildPlan(ctx); err != nil {
		return p.refuseApplication(ctx, err)
	}
	if err := p.publishRevision(ctx); err != nil {
		return err
	}
	p.app.recordEvent(corev1.EventTypeNormal, "PolicyGenerated", "Policies applied successfully")
	done = p.c.metrics.timeStage("generate-app-steps")
	graph, err := p.plan.Graph()
	done()
	if err != nil {
		return p.refuseApplication(ctx, err)
	}
	p.app.setAvailable("Render")
	p.app.recordEvent(corev1.EventTypeNormal, "Rendered", "Rendered successfully")
	if finished, err := p.runWorkflow(ctx, graph); err != nil || !finished {
		return err
	}
	return p.settlePublished(ctx)
}

// addFinalizer puts the finalizer on a new application. Its event begins the next pass.
func (p *pass) addFinalizer(ctx context.Context) error {
	defer p.c.metrics.timeStage("add-finalizer")()
	app := p.app.object
	app.Finalizers = append(app.Finalizers, api.FinalizerApplication)
	if app.Annotations == nil {
		app.Annotations = map[string]string{}
	}
	app.Annotations[api.AnnotationVersion] = kubevela
	return p.app.writeObject(ctx)
}

func (p *pass) findTrackers() {
	p.trackers = findTrackers(p.app)
	p.garbage = &garbage{app: p.app, trackers: p.trackers}
}

// buildPlan finds everything that the application names.
func (p *pass) buildPlan(ctx context.Context) error {
	steps, err := p.c.findWorkflow(ctx, p.app.object)
	if err != nil {
		return err
	}
	done := p.c.metrics.timeStage("generate-appfile")
	p.plan, err = plan.New(p.app.object, steps, p.c.tools)
	done()
	if err != nil {
		return err
	}
	p.app.recordEvent(corev1.EventTypeNormal, "Parsed", "Parsed successfully")
	defer p.c.metrics.timeStage("apply-policies")()
	p.plan.ApplyOnce = p.c.o.Features.ApplyOnce
	if err := p.plan.ReadPolicies(); err != nil {
		return err
	}
	p.app.setAvailable("Parsed")
	return nil
}

// publishRevision makes the revision. A new one is reported at once.
func (p *pass) publishRevision(ctx context.Context) error {
	r := &revisions{app: p.app, plan: p.plan}
	p.revisions = r
	if err := r.prepareRevision(); err != nil {
		return err
	}
	p.plan.Revision, p.plan.Number = r.revisionName(), r.number
	if err := r.applyRevision(ctx); err != nil {
		return err
	}
	p.app.setAvailable("Revision")
	p.app.recordEvent(corev1.EventTypeNormal, "Revisioned", "Revisioned successfully")
	if !r.isNew {
		return nil
	}
	s := &p.app.object.Status
	s.LatestRevision = &api.RevisionName{Name: r.revisionName(), Revision: r.number, RevisionHash: r.hash}
	s.Phase = api.Rendering
	return p.app.patchStatus(ctx)
}

// runWorkflow runs what can be run of the workflow of the revision, unless it has
// finished in an earlier pass.
func (p *pass) runWorkflow(ctx context.Context, g *workflow.Graph) (finished bool, err error) {
	w := p.app.object.Status.Workflow
	if w != nil && w.Finished && w.AppRevision == p.plan.Revision {
		return true, nil
	}
	e := newExecution(p.app, p.plan, g, p.trackers)
	wait, err := e.executeWorkflow(ctx)
	if err != nil {
		return false, err
	}
	if !p.app.object.Status.Workflow.Finished {
		return false, p.pauseWorkflow(ctx, wait)
	}
	defer p.c.metrics.timeStage("do-workflow-finish")()
	if p.app.object.Status.Workflow.Phase == api.WorkflowSucceeded {
		p.app.recordEvent(corev1.EventTypeNormal, "Applied", "Applied successfully")
	}
	if e.context != nil {
		if _, err := e.context.readConfigMap(ctx); err != nil {
			return false, err
		}
	}
	return true, p.revisions.finishRevision(ctx)
}

// pauseWorkflow waits for a workflow that is not over.
func (p *pass) pauseWorkflow(ctx context.Context, wait time.Duration) error {
	s := &p.app.object.Status
	s.Phase = api.RunningWorkflow
	var kept error
	if s.Workflow.Suspend { // for as long as somebody likes: what it has made is kept
		s.Phase = api.WorkflowSuspending
		kept = p.keepState(ctx)
	}
	if _, err := p.collectAndReport(ctx, false); err != nil {
		return err
	}
	if wait > 0 {
		p.app.requeueAfter(untilWhole(p.c.o.Now(), wait))
	} else {
		p.app.requeueAfter(p.c.o.Resync)
	}
	return kept
}

// settlePublished looks after an application that is published: what it made is kept, what
// it no longer holds is collected. Of one whose workflow failed nothing is.
func (p *pass) settlePublished(ctx context.Context) error {
	p.setPhase()
	f, succeeded := p.c.o.Features, p.app.object.Status.Workflow.Phase == api.WorkflowSucceeded
	keeps := succeeded || f.KeepFailed
	if keeps && f.Collections > 1 {
		if _, err := p.collectAndReport(ctx, false); err != nil {
			return err
		}
	}
	var kept error
	if keeps {
		kept = p.keepState(ctx)
		if err := p.revisions.collectRevisions(ctx); err != nil {
			return err
		}
		if succeeded {
			p.app.setAvailable("Ready")
		}
		p.app.recordEvent(corev1.EventTypeNormal, "Deployed", "Deployed successfully")
	}
	finished, err := p.collectAndReport(ctx, succeeded)
	switch {
	case err != nil || kept != nil:
		return errors.Join(err, kept)
	case !finished:
		p.app.requeueAfter(garbageRetry)
	default:
		p.app.requeueAfter(p.c.o.restFor(p.c.rng.nextRandom()))
	}
	return nil
}

// keepState keeps what the application made. A failure is in its status; the pass fails
// only where that is wanted.
func (p *pass) keepState(ctx context.Context) error {
	err := p.trackers.keepState(ctx, p.plan.ApplyOnce)
	if err == nil || p.c.o.Features.RetryKeep {
		return err
	}
	p.c.o.Log.Warn("objects are not kept", "application", p.app.key, "err", err)
	return nil
}

// collectAndReport collects garbage, and writes the status of the application.
func (p *pass) collectAndReport(ctx context.Context, mark bool) (finished bool, err error) {
	if finished, err = p.garbage.collectGarbage(ctx, mark); err != nil {
		return false, err
	}
	return finished, p.app.patchStatus(ctx)
}

// setPhase sets the phase of an application whose workflow has finished.
func (p *pass) setPhase() {
	s := &p.app.object.Status
	switch w := s.Workflow; {
	case w.Phase == api.WorkflowHasFailed:
		s.Phase = api.WorkflowFailed
		p.app.setCondition("Workflow", corev1.ConditionFalse, "WorkflowFailed", w.Message)
	case w.Phase == api.WorkflowHasEnded:
		s.Phase = api.WorkflowTerminated
		p.app.setCondition("Workflow", corev1.ConditionFalse, "WorkflowTerminated", w.Message)
	case slices.ContainsFunc(s.Services, func(s api.Service) bool { return !s.Healthy }):
		s.Phase = api.Unhealthy
	default:
		s.Phase = api.Running
		p.app.setAvailable("Workflow")
	}
}

// deleteApplication deletes what the application made, then its finalizer.
func (p *pass) deleteApplication(ctx context.Context) error {
	app := p.app.object
	if !slices.Contains(app.Finalizers, api.FinalizerApplication) {
		return nil
	}
	p.findTrackers()
	app.Status.Phase = api.Deleting
	known := len(p.trackers.allTrackers())
	finished, err := p.garbage.collectGarbage(ctx, true)
	if err != nil {
		return err
	}
	if err := p.app.updateStatus(ctx); err != nil {
		return err
	}
	if known > 0 || !finished { // the events of trackers start the next passes; who misses one comes back
		p.app.requeueAfter(garbageRetry)
		return nil
	}
	defer p.c.metrics.timeStage("remove-finalizer")()
	app.Finalizers = slices.DeleteFunc(app.Finalizers, func(f string) bool { return f == api.FinalizerApplication })
	return p.app.writeObject(ctx)
}

// refuseApplication reports what is wrong with an application, which is tried again later.
func (p *pass) refuseApplication(ctx context.Context, cause error) error {
	p.app.object.Status.Phase = api.Rendering
	p.app.setCondition("Parsed", corev1.ConditionFalse, "ReconcileError", cause.Error())
	p.app.recordEvent(corev1.EventTypeWarning, "FailedParse", "fail to parse application: "+cause.Error())
	if err := p.app.patchStatus(ctx); err != nil {
		return err
	}
	return fmt.Errorf("parse: %w", cause)
}
