package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/internal/subject/kit/resource"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// pass is one pass over one application.
type pass struct {
	c      *Controller
	key    string
	app    *api.Application // as it will be written
	before api.ApplicationStatus
	plan   *plan.Plan

	hash   string
	number int64 // of the revision
	isNew  bool  // the application has another revision than its status says
	stored *api.Revision
	kept   []*api.Revision

	current *api.Tracker
	history []*api.Tracker
	marked  bool // a tracker was deleted in this pass

	graph  *workflow.Graph
	values map[string]json.RawMessage   // that steps gave to others, by name
	live   map[[3]string]map[string]any // objects by component, cluster and place in its outputs

	mu      sync.Mutex // components are delivered to several clusters at once
	entries map[string]entry
	writing sync.Mutex // held while the tracker is written
}

const (
	behind    = 20 * time.Millisecond // until the caches are asked again
	collected = 3 * time.Second       // until garbage is looked after again
)

// kubevela is the version that the plane stands for.
const kubevela = "v1.8.0"

// reconcile brings one application a step further.
func (c *Controller) reconcile(ctx context.Context, key string) error {
	o, exists, err := c.applications.GetStore().GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		c.memory.forget(key)
		c.drift.forget(key)
		c.metrics.show(key, nil)
		return nil
	}
	if !c.memory.caughtUp(key) {
		c.loop.Queue.AddAfter(key, behind)
		return nil
	}
	app := o.(*api.Application)
	p := &pass{c: c, key: key, app: app.Copy(), before: app.Status, entries: map[string]entry{}}
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	begin := c.o.Clock.Now()
	err = p.do(ctx)
	c.metrics.passes.WithLabelValues(string(app.Status.Phase), string(p.app.Status.Phase)).Observe(c.metrics.since(begin))
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w (%w)", err, loop.ErrQuiet)
	}
	return err
}

func (p *pass) do(ctx context.Context) error {
	if waits, err := p.adoptMoved(ctx); err != nil || waits {
		return err
	}
	if p.app.DeletionTimestamp != nil {
		return p.leave(ctx)
	}
	if !slices.Contains(p.app.Finalizers, api.FinalizerApplication) {
		return p.adopt(ctx)
	}
	done := p.c.metrics.stage("create-app-handler")
	err := p.findTrackers()
	done()
	if err != nil {
		return err
	}
	if err := p.parse(ctx); err != nil {
		return p.refuse(ctx, err)
	}
	if err := p.publish(ctx); err != nil {
		return err
	}
	done = p.c.metrics.stage("generate-app-steps")
	p.graph, err = p.plan.Graph()
	done()
	if err != nil {
		return p.refuse(ctx, err)
	}
	w := p.app.Status.Workflow
	if w == nil || !w.Finished || w.AppRevision != p.revisionName() {
		wait, err := p.execute(ctx)
		if err != nil {
			return err
		}
		if w = p.app.Status.Workflow; !w.Finished {
			return p.pause(ctx, wait)
		}
		if err := p.finishWorkflow(ctx); err != nil {
			return err
		}
	}
	return p.settle(ctx)
}

// adopt puts the finalizer on a new application. Its event begins the next pass.
func (p *pass) adopt(ctx context.Context) error {
	defer p.c.metrics.stage("add-finalizer")()
	p.app.Finalizers = append(p.app.Finalizers, api.FinalizerApplication)
	if p.app.Annotations == nil {
		p.app.Annotations = map[string]string{}
	}
	p.app.Annotations[api.AnnotationVersion] = kubevela
	return p.update(ctx)
}

func (p *pass) update(ctx context.Context) error {
	defer p.c.metrics.own("Update", api.KindApplication)()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	p.app.TypeMeta = api.TypeOf(api.KindApplication)
	app, err := p.c.client.Applications.Update(ctx, p.app)
	if err != nil {
		return ignoreNotFound(err)
	}
	if len(app.Finalizers) > 0 || app.DeletionTimestamp == nil {
		p.c.memory.wrote(p.key, p.c.applications.GetStore(), app)
	}
	return nil
}

// parse finds everything that the application names.
func (p *pass) parse(ctx context.Context) error {
	steps, err := p.c.findWorkflow(ctx, p.app)
	if err != nil {
		return err
	}
	done := p.c.metrics.stage("generate-appfile")
	p.plan, err = plan.New(p.app, steps, p.c.tools)
	done()
	if err != nil {
		return err
	}
	p.event(corev1.EventTypeNormal, "Parsed", "Parsed successfully")
	defer p.c.metrics.stage("apply-policies")()
	p.plan.ApplyOnce = p.c.o.Features.ApplyOnce
	if err := p.plan.ReadPolicies(); err != nil {
		return err
	}
	p.set("Parsed", corev1.ConditionTrue, "Available", "")
	return nil
}

// publish makes the revision. A new one is said at once.
func (p *pass) publish(ctx context.Context) error {
	if err := p.prepareRevision(); err != nil {
		return err
	}
	p.plan.Revision, p.plan.Number = p.revisionName(), p.number
	if err := p.applyRevision(ctx); err != nil {
		return err
	}
	p.set("Revision", corev1.ConditionTrue, "Available", "")
	p.event(corev1.EventTypeNormal, "Revisioned", "Revisioned successfully")
	if !p.isNew {
		return nil
	}
	s := &p.app.Status
	s.LatestRevision = &api.RevisionName{Name: p.revisionName(), Revision: p.number, RevisionHash: p.hash}
	s.Phase = api.Rendering
	return p.patchStatus(ctx)
}

// pause waits for a workflow that is not over.
func (p *pass) pause(ctx context.Context, wait time.Duration) error {
	p.app.Status.Phase = api.RunningWorkflow
	var kept error
	if p.app.Status.Workflow.Suspend { // for as long as somebody likes: what it has made is kept
		p.app.Status.Phase = api.WorkflowSuspending
		kept = p.keepAndSay(ctx)
	}
	p.set("Render", corev1.ConditionTrue, "Available", "")
	p.event(corev1.EventTypeNormal, "Rendered", "Rendered successfully")
	if err := p.patchStatus(ctx); err != nil {
		return err
	}
	if wait > 0 {
		p.c.loop.Queue.AddAfter(p.key, untilWhole(p.c.now(), wait))
	} else {
		p.c.loop.Queue.AddAfter(p.key, p.c.o.Resync)
	}
	return kept
}

// finishWorkflow writes down how the workflow ended.
func (p *pass) finishWorkflow(ctx context.Context) error {
	defer p.c.metrics.stage("do-workflow-finish")()
	if !p.c.o.Features.InMemoryContext {
		if _, err := p.readContext(ctx); err != nil {
			return err
		}
	}
	return p.finishRevision(ctx)
}

// settle looks after an application that is published: what it made is kept, what
// it no longer holds is collected.
func (p *pass) settle(ctx context.Context) error {
	w := p.app.Status.Workflow
	s := &p.app.Status
	switch {
	case w.Phase == api.WorkflowHasFailed:
		s.Phase = api.WorkflowFailed
		p.set("Workflow", corev1.ConditionFalse, "WorkflowFailed", w.Message)
	case w.Phase == api.WorkflowHasEnded:
		s.Phase = api.WorkflowTerminated
		p.set("Workflow", corev1.ConditionFalse, "WorkflowTerminated", w.Message)
	case slices.ContainsFunc(s.Services, func(s api.Service) bool { return !s.Healthy }):
		s.Phase = api.Unhealthy
	default:
		s.Phase = api.Running
		p.set("Workflow", corev1.ConditionTrue, "Available", "")
		p.set("Ready", corev1.ConditionTrue, "Available", "")
	}
	p.event(corev1.EventTypeNormal, "Applied", "Applied successfully")
	kept := p.keepAndSay(ctx)
	if err := p.collectRevisions(ctx); err != nil {
		return err
	}
	finished := true
	passes := 1
	if p.c.o.Features.TwoCollections {
		passes = 2
	}
	for range passes {
		var err error
		if finished, err = p.collectAndSay(ctx, w.Phase == api.WorkflowSucceeded); err != nil {
			return err
		}
		if err := p.patchStatus(ctx); err != nil {
			return err
		}
	}
	p.event(corev1.EventTypeNormal, "Deployed", "Deployed successfully")
	switch {
	case kept != nil:
		return kept
	case !finished:
		p.c.loop.Queue.AddAfter(p.key, collected)
	default:
		p.c.loop.Queue.AddAfter(p.key, p.c.o.Resync+time.Duration(p.c.rng.share()*p.c.o.Features.Jitter*float64(p.c.o.Resync)))
	}
	return nil
}

// keepAndSay keeps what the application made and says what was put right and what
// hinders that.
func (p *pass) keepAndSay(ctx context.Context) error {
	var done repairs
	err := p.keep(done.in(ctx))
	if what := done.sentence(); what != "" {
		p.event(corev1.EventTypeWarning, "Repaired", "put right: "+what) // passes use up what is sent of normal ones
		p.c.o.Log.Info("drift is repaired", "application", p.key, "objects", what)
	}
	p.say("StateKeep", "FailedStateKeep", err)
	return err
}

// collectAndSay collects garbage and says what hinders that.
func (p *pass) collectAndSay(ctx context.Context, mark bool) (finished bool, err error) {
	if finished, err = p.collectGarbage(ctx, mark); apierrors.IsConflict(err) {
		return false, err
	}
	p.say("GarbageCollection", "FailedGC", err)
	if err != nil {
		return false, errors.Join(err, p.patchStatus(ctx))
	}
	return finished, nil
}

// say sets a condition by what came of something, with an event where it failed. What
// never failed has no condition.
func (p *pass) say(condition, event string, err error) {
	if err != nil {
		p.set(condition, corev1.ConditionFalse, "Unavailable", err.Error())
		p.event(corev1.EventTypeWarning, event, err.Error())
	} else if slices.ContainsFunc(p.app.Status.Conditions, func(c api.Condition) bool { return c.Type == condition }) {
		p.set(condition, corev1.ConditionTrue, "Available", "")
	}
}

// leave takes away what the application made, then its finalizer.
func (p *pass) leave(ctx context.Context) error {
	if !slices.Contains(p.app.Finalizers, api.FinalizerApplication) {
		return nil
	}
	if err := p.findTrackers(); err != nil {
		return err
	}
	p.app.Status.Phase = api.Deleting
	if len(p.allTrackers()) > 0 {
		finished, err := p.collectAndSay(ctx, true)
		if err != nil {
			return err
		}
		if !finished {
			p.c.loop.Queue.AddAfter(p.key, collected)
			return p.patchStatus(ctx)
		}
	}
	defer p.c.metrics.stage("remove-finalizer")()
	p.app.Finalizers = slices.DeleteFunc(p.app.Finalizers, func(f string) bool { return f == api.FinalizerApplication })
	return p.update(ctx)
}

// refuse says what is wrong with an application, which is tried again later.
func (p *pass) refuse(ctx context.Context, cause error) error {
	p.app.Status.Phase = api.Rendering
	p.set("Parsed", corev1.ConditionFalse, "ReconcileError", cause.Error())
	p.event(corev1.EventTypeWarning, "FailedParse", "fail to parse application: "+cause.Error())
	if err := p.patchStatus(ctx); err != nil {
		return err
	}
	return fmt.Errorf("parse: %w", cause)
}

// patchStatus sends the whole application as a merge patch of its status, unless
// nothing changed and that counts.
func (p *pass) patchStatus(ctx context.Context) error {
	p.app.Status.ObservedGeneration = p.app.Generation
	if p.c.o.Features.SkipEqualStatus && reflect.DeepEqual(p.before, p.app.Status) {
		return nil
	}
	p.app.TypeMeta = api.TypeOf(api.KindApplication)
	body, err := json.Marshal(p.app)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	defer p.c.metrics.own("StatusPatch", api.KindApplication)()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	app, err := p.c.client.Applications.Patch(ctx, p.app, resource.Patch{Type: types.MergePatchType, Body: body}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	p.app.ResourceVersion = app.ResourceVersion
	p.before = p.app.Copy().Status
	p.c.memory.wrote(p.key, p.c.applications.GetStore(), app)
	return nil
}

// set sets a condition; its time is that of its last change.
func (p *pass) set(kind string, status corev1.ConditionStatus, reason, message string) {
	next := api.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(p.c.now().Truncate(time.Second))}
	all := slices.Clone(p.app.Status.Conditions)
	i := slices.IndexFunc(all, func(c api.Condition) bool { return c.Type == kind })
	switch {
	case i < 0:
		all = append(all, next)
	case all[i].Status == status && all[i].Reason == reason && all[i].Message == message:
		return
	default:
		all[i] = next
	}
	p.app.Status.Conditions = all
}

func (p *pass) event(kind, reason, message string) { p.c.events.Event(p.app, kind, reason, message) }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func everything() labels.Selector { return labels.Everything() }

// sameJSON compares two documents whatever the order of their keys.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
