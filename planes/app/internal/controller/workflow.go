package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// The types of steps, and the ways in which they are run.
const (
	stepApply   = "apply-component"
	stepSuspend = "suspend"
	stepDeploy  = "deploy"
	modeDAG     = "DAG"
	modeSerial  = "StepByStep"
)

// step is one step of a workflow with what it delivers.
type step struct {
	api.Step
	component *api.Component // of apply-component
	deploy    *deployment    // of deploy
}

// workflow returns the steps of the application and how they are run. Without a
// workflow of its own there is one step for each topology, or else for each component.
func (p *pass) workflow() (steps []step, mode string, err error) {
	defer p.c.metrics.stage("generate-app-steps")()
	spec := p.app.Spec
	if spec.Workflow == nil || len(spec.Workflow.Steps) == 0 {
		return p.generated(), modeDAG, nil
	}
	mode = modeSerial
	if spec.Workflow.Mode != nil && spec.Workflow.Mode.Steps != "" {
		mode = spec.Workflow.Mode.Steps
	}
	for _, s := range spec.Workflow.Steps {
		one := step{Step: s}
		switch s.Type {
		case stepSuspend:
		case stepDeploy:
			if one.deploy, err = p.deployment(s); err != nil {
				return nil, "", fmt.Errorf("step %s: %w", s.Name, err)
			}
		case stepApply:
			var properties struct {
				Component string `json:"component"`
			}
			if err := json.Unmarshal(s.Properties, &properties); err != nil {
				return nil, "", fmt.Errorf("step %s: %w", s.Name, err)
			}
			i := slices.IndexFunc(spec.Components, func(c api.Component) bool { return c.Name == properties.Component })
			if i < 0 {
				return nil, "", fmt.Errorf("step %s: no component %q", s.Name, properties.Component)
			}
			one.component = &spec.Components[i]
		default:
			return nil, "", fmt.Errorf("step %s: type %s is not one that the plane carries out: want %s, %s or %s", s.Name, s.Type, stepApply, stepDeploy, stepSuspend)
		}
		steps = append(steps, one)
	}
	return steps, mode, nil
}

// generated are the steps of an application that names none.
func (p *pass) generated() (steps []step) {
	for _, t := range p.topologies {
		steps = append(steps, step{
			Step:   api.Step{Name: stepDeploy + "-" + t.name, Type: stepDeploy},
			deploy: &deployment{topologies: []topology{t}, parallelism: deployAtOnce},
		})
	}
	if len(steps) > 0 {
		return steps
	}
	for i, c := range p.app.Spec.Components {
		steps = append(steps, step{Step: api.Step{Name: c.Name, Type: stepApply, DependsOn: c.DependsOn}, component: &p.app.Spec.Components[i]})
	}
	return steps
}

// execute runs what can be run of the workflow now. wait is how long to wait until
// there is more to do; 0 for nothing to wait for.
func (p *pass) execute(ctx context.Context, steps []step, mode string) (wait time.Duration, err error) {
	defer p.c.metrics.stage("execute-workflow")()
	w := p.app.Status.Workflow
	if w == nil || w.AppRevision != p.revisionName() {
		w = &api.WorkflowStatus{AppRevision: p.revisionName(), Mode: mode, Phase: api.WorkflowExecuting, StartTime: metav1.NewTime(p.c.now())}
		if !p.c.o.Features.InMemoryContext {
			w.ContextBackend = &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.app.Namespace, Name: contextName(p.app)}
		}
		p.app.Status.Workflow, p.app.Status.Services, p.app.Status.AppliedResources = w, nil, nil
	}
	if err := p.openContext(ctx); err != nil {
		return 0, err
	}
	wait = -1
	for _, s := range steps {
		status := stepOf(w, s)
		if status.Phase == api.StepSucceeded {
			continue
		}
		if !ready(w, s) {
			if mode != modeDAG {
				break
			}
			continue
		}
		next, err := p.run(ctx, s, status)
		if err != nil {
			return 0, err
		}
		if next > 0 && (wait < 0 || next < wait) {
			wait = next
		}
		if mode != modeDAG && status.Phase != api.StepSucceeded || w.Suspend {
			break
		}
	}
	p.concludeWorkflow(steps)
	return max(wait, 0), nil
}

// stepOf returns the status of a step, which is made where there is none.
func stepOf(w *api.WorkflowStatus, s step) *api.StepStatus {
	for i := range w.Steps {
		if w.Steps[i].Name == s.Name {
			return &w.Steps[i]
		}
	}
	id, err := hashOf(w.AppRevision + "/" + s.Name)
	if err != nil {
		id = s.Name // a string always has a hash
	}
	w.Steps = append(w.Steps, api.StepStatus{ID: id[:10], Name: s.Name, Type: s.Type, Phase: api.StepPending})
	return &w.Steps[len(w.Steps)-1]
}

// ready says whether everything that a step depends on is done.
func ready(w *api.WorkflowStatus, s step) bool {
	for _, name := range s.DependsOn {
		if !slices.ContainsFunc(w.Steps, func(t api.StepStatus) bool { return t.Name == name && t.Phase == api.StepSucceeded }) {
			return false
		}
	}
	return true
}

// run executes a step once. A failure of the step is in its status; an error is one
// of the pass.
func (p *pass) run(ctx context.Context, s step, status *api.StepStatus) (wait time.Duration, err error) {
	begin := p.c.o.Clock.Now()
	defer func() {
		p.c.metrics.steps.WithLabelValues("application", s.Type).Observe(float64(p.c.o.Clock.Now().Sub(begin)) / float64(time.Millisecond))
	}()
	now := metav1.NewTime(p.c.now())
	first := status.FirstExecuteTime.IsZero()
	if first {
		status.FirstExecuteTime = now
	}
	status.LastExecuteTime = now
	if s.Type == stepSuspend {
		return 0, p.suspend(ctx, status, first)
	}
	name := p.revisionName() + "/" + s.Name
	var ok bool
	var message string
	var failed error
	if s.deploy != nil {
		ok, message, failed = p.deploy(ctx, *s.deploy)
	} else {
		ok, message, failed = p.bring(ctx, *s.component, placement{})
	}
	switch {
	case failed != nil && ctx.Err() != nil:
		return 0, failed
	case failed != nil:
		tries := p.c.memory.again(p.key, name)
		status.Phase, status.Reason, status.Message = api.StepFailed, "Execute", failed.Error()
		p.c.events.Event(p.app, corev1.EventTypeWarning, "FailedWorkflow", failed.Error())
		if tries >= maxTries {
			p.app.Status.Workflow.Phase, p.app.Status.Workflow.Message = api.WorkflowHasFailed, fmt.Sprintf("step %s: %d tries failed: %v", s.Name, tries, failed)
			p.c.memory.done(p.key, name)
			return 0, p.saveContext(ctx, s.Name, first)
		}
		wait = stepWait(tries, maxFailing)
	case !ok:
		status.Phase, status.Reason, status.Message = api.StepRunning, "Wait", message
		wait = stepWait(p.c.memory.again(p.key, name), maxWait)
	default:
		status.Phase, status.Reason, status.Message = api.StepSucceeded, "", ""
		p.c.memory.done(p.key, name)
	}
	return wait, p.saveContext(ctx, s.Name, first)
}

// suspend stops a workflow until somebody takes status.workflow.suspend back.
func (p *pass) suspend(ctx context.Context, status *api.StepStatus, first bool) error {
	w := p.app.Status.Workflow
	if first {
		w.Suspend, status.Phase = true, api.StepRunning
		w.Phase = api.WorkflowSuspended
		return p.saveContext(ctx, status.Name, first)
	}
	if !w.Suspend {
		status.Phase, w.Phase = api.StepSucceeded, api.WorkflowExecuting
	}
	return nil
}

// bring applies a component somewhere and says whether it is healthy there.
func (p *pass) bring(ctx context.Context, component api.Component, at placement) (ok bool, message string, err error) {
	begin := p.c.o.Clock.Now()
	defer func() {
		p.c.metrics.components.WithLabelValues("apply-component").Observe(p.c.metrics.since(begin))
	}()
	manifests, err := p.render(component, at)
	if err != nil {
		return false, "", err
	}
	if !p.tracked(manifests) {
		if err := p.dispatch(ctx, manifests); err != nil {
			return false, "", err
		}
	}
	ok, message, err = p.check(ctx, component, at, manifests)
	if ok && err == nil && !p.c.o.Features.DisableDoubleCheck {
		ok, message, err = p.check(ctx, component, at, manifests)
	}
	if err == nil {
		p.serve(component, at, manifests, ok, message)
	}
	return ok, message, err
}

// tracked says whether the current tracker holds manifests as they are and they were
// sent: a step that only waits for health sends nothing again.
func (p *pass) tracked(manifests []manifest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || !p.servedLocked(manifests[0].component, manifests[0].cluster) {
		return false
	}
	for _, m := range manifests {
		managed, err := m.managed()
		if err != nil || !slices.ContainsFunc(p.current.Spec.ManagedResources, func(old api.ManagedResource) bool {
			return old.Key() == managed.Key() && sameJSON(old.Raw, managed.Raw)
		}) {
			return false
		}
	}
	return true
}

// servedLocked says whether a component's objects were sent to a cluster by this workflow.
func (p *pass) servedLocked(component, cluster string) bool {
	return slices.ContainsFunc(p.app.Status.Services, func(s api.Service) bool { return s.Name == component && s.Cluster == cluster })
}

// dispatch sends the objects of a component: tried first, then written down, then made.
func (p *pass) dispatch(ctx context.Context, manifests []manifest) error {
	limit := p.c.o.MaxDispatch
	if p.c.o.Features.DryRun {
		if err := parallel(len(manifests), limit, func(i int) error {
			return named(manifests[i], p.c.objects.apply(cluster.In(ctx, manifests[i].cluster), manifests[i].object, true))
		}); err != nil {
			return err
		}
	}
	if err := p.track(ctx, manifests); err != nil {
		return err
	}
	return parallel(len(manifests), limit, func(i int) error {
		return named(manifests[i], p.c.objects.apply(cluster.In(ctx, manifests[i].cluster), manifests[i].object, false))
	})
}

func named(m manifest, err error) error {
	if err == nil || errors.Is(err, errForeign) {
		return err
	}
	where := ""
	if m.cluster != "" {
		where = " in cluster " + m.cluster
	}
	return fmt.Errorf("component %s: apply %s %s%s: %w", m.component, m.object.GetKind(), m.object.GetName(), where, err)
}

// check reads what a component made and asks its definition how it is.
func (p *pass) check(ctx context.Context, component api.Component, at placement, manifests []manifest) (ok bool, message string, err error) {
	ok, ctx = true, cluster.In(ctx, at.cluster)
	for i, m := range manifests {
		o, err := p.c.objects.get(ctx, m.object)
		if err != nil {
			return false, "", named(m, err)
		}
		if o == nil {
			return false, fmt.Sprintf("%s %s is not there", m.object.GetKind(), m.object.GetName()), nil
		}
		if i > 0 {
			continue
		}
		if ok, message, err = p.healthy(component, at, o); err != nil || !ok {
			return false, message, err
		}
	}
	return ok, message, nil
}

// serve says in the status how a component is and what it made.
func (p *pass) serve(component api.Component, at placement, manifests []manifest, healthy bool, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.app.Status
	gvk := manifests[0].object.GroupVersionKind()
	service := api.Service{
		Name: component.Name, Namespace: cmp.Or(at.namespace, p.app.Namespace), Cluster: at.cluster, Healthy: healthy, Message: message,
		WorkloadDefinition: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
	}
	if i := slices.IndexFunc(s.Services, func(o api.Service) bool { return o.Name == component.Name && o.Cluster == at.cluster }); i >= 0 {
		s.Services[i] = service
	} else {
		s.Services = append(s.Services, service)
	}
	for _, m := range manifests {
		r := api.ResourceReference{
			Cluster: at.cluster, Creator: "workflow", APIVersion: m.object.GetAPIVersion(), Kind: m.object.GetKind(), Namespace: m.object.GetNamespace(), Name: m.object.GetName(),
		}
		if !slices.Contains(s.AppliedResources, r) {
			s.AppliedResources = append(s.AppliedResources, r)
		}
	}
}

// concludeWorkflow says whether the workflow is over.
func (p *pass) concludeWorkflow(steps []step) {
	w := p.app.Status.Workflow
	done := 0
	for _, s := range w.Steps {
		if s.Phase == api.StepSucceeded {
			done++
		}
	}
	if done == len(steps) {
		w.Phase, w.Message = api.WorkflowSucceeded, ""
	}
	if w.Phase == api.WorkflowSucceeded || w.Phase == api.WorkflowHasFailed {
		w.Finished, w.Terminated = true, w.Phase == api.WorkflowHasFailed
		end := metav1.NewTime(p.c.now())
		w.EndTime = &end
		p.c.metrics.workflows.WithLabelValues(w.Phase).Observe(end.Sub(w.StartTime.Time).Seconds())
	}
}

func contextName(app *api.Application) string { return "workflow-" + app.Name + "-context" }

// openContext reads the state that steps hand to each other, or makes it.
func (p *pass) openContext(ctx context.Context) error {
	if p.c.o.Features.InMemoryContext {
		return nil
	}
	cm, err := p.readContext(ctx)
	if err != nil || cm != nil {
		return err
	}
	cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: contextName(p.app), Namespace: p.app.Namespace,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.app, api.GroupVersion().WithKind(api.KindApplication))},
	}, Data: map[string]string{"vars": "{}"}}
	defer p.c.metrics.request("Create", "ConfigMap", "v1")()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := p.c.client.Core.ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workflow context: %w", err)
	}
	return nil
}

// readContext returns the state, from the cache where there is one; nil without any.
func (p *pass) readContext(ctx context.Context) (*corev1.ConfigMap, error) {
	namespace, name := p.app.Namespace, contextName(p.app)
	if p.c.configMaps != nil {
		defer p.c.metrics.request("GetCache", "ConfigMap", "v1")()
		o, exists, err := p.c.configMaps.GetStore().GetByKey(namespace + "/" + name)
		if err != nil || !exists {
			return nil, err
		}
		return o.(*corev1.ConfigMap), nil
	}
	defer p.c.metrics.request("Get", "ConfigMap", "v1")()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cm, err := p.c.client.Core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("workflow context: %w", err)
	}
	return cm, nil
}

// saveContext notes a step that ran for the first time; what it knows does not
// change later.
func (p *pass) saveContext(ctx context.Context, name string, first bool) error {
	if p.c.o.Features.InMemoryContext || !first {
		return nil
	}
	cm, err := p.readContext(ctx)
	if err != nil {
		return err
	}
	vars := map[string]string{}
	if cm != nil {
		if err := json.Unmarshal([]byte(cm.Data["vars"]), &vars); err != nil {
			vars = map[string]string{} // somebody wrote into it: what steps need they make again
		}
	}
	vars[name] = p.revisionName()
	raw, err := json.Marshal(vars)
	if err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	body, err := json.Marshal(map[string]any{"data": map[string]string{"vars": string(raw)}})
	if err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	defer p.c.metrics.request("Patch", "ConfigMap", "v1")()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := p.c.client.Core.ConfigMaps(p.app.Namespace).Patch(ctx, contextName(p.app), types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("workflow context: %w", err)
	}
	return nil
}
