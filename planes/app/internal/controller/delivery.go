package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// delivery applies the components of an application, and looks how they are.
type delivery struct {
	app      *application
	plan     *plan.Plan
	trackers *trackers
	observes bool // some step has outputs

	mu   sync.Mutex                // components are delivered to several clusters at once
	live map[output]map[string]any // objects as the server has them
}

// output is the place of an object in the outputs of a component.
type output struct{ component, cluster, name string }

// applyComponent applies a component somewhere and says whether it is healthy there.
func (d *delivery) applyComponent(ctx context.Context, component api.Component, at plan.Place) (ok bool, message string, err error) {
	begin := d.app.c.o.Clock.Now()
	defer func() {
		d.app.c.metrics.components.WithLabelValues("apply-component").Observe(d.app.c.metrics.secondsSince(begin))
	}()
	manifests, err := d.plan.Render(component, at)
	if err != nil {
		return false, "", err
	}
	if !d.app.c.o.Features.SkipDispatched || !d.isSent(manifests) {
		if err := d.dispatchManifests(ctx, manifests); err != nil {
			return false, "", err
		}
	}
	ok, message, err = d.checkHealth(ctx, component, at, manifests)
	if ok && err == nil && !d.app.c.o.Features.DisableDoubleCheck {
		ok, message, err = d.checkHealth(ctx, component, at, manifests)
	}
	if err == nil {
		d.reportService(component, at, manifests, ok, message)
	}
	return ok, message, err
}

// isSent says whether manifests were sent by this workflow as they are: a step that only
// waits for health sends nothing again.
func (d *delivery) isSent(manifests []plan.Manifest) bool {
	return d.isReported(manifests[0].Component, manifests[0].Cluster) && d.trackers.holdsManifests(manifests)
}

// isReported says whether the status has a component in a cluster.
func (d *delivery) isReported(component, cluster string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.app.object.Status.Services, func(s api.Service) bool { return s.Name == component && s.Cluster == cluster })
}

// dispatchManifests sends the objects of a component: tried first, then written down, then made.
func (d *delivery) dispatchManifests(ctx context.Context, manifests []plan.Manifest) error {
	limit := d.app.c.o.MaxDispatch
	if d.app.c.o.Features.DryRun {
		if err := runParallel(len(manifests), limit, func(i int) error {
			return applyError(manifests[i], d.app.c.objects.applyObject(cluster.In(ctx, manifests[i].Cluster), manifests[i].Object, true))
		}); err != nil {
			return err
		}
	}
	if err := d.trackers.trackManifests(ctx, d.plan.Revision, manifests); err != nil {
		return err
	}
	return runParallel(len(manifests), limit, func(i int) error {
		return applyError(manifests[i], d.app.c.objects.applyObject(cluster.In(ctx, manifests[i].Cluster), manifests[i].Object, false))
	})
}

func applyError(m plan.Manifest, err error) error {
	if err == nil || errors.Is(err, errForeign) {
		return err
	}
	return fmt.Errorf("component %s: apply %s %s: %w", m.Component, m.Object.GetKind(), m.Object.GetName(), err)
}

// checkHealth reads what a component made and asks its definition how it is.
func (d *delivery) checkHealth(ctx context.Context, component api.Component, at plan.Place, manifests []plan.Manifest) (ok bool, message string, err error) {
	ok, ctx = true, cluster.In(ctx, at.Cluster)
	for i, m := range manifests {
		o, err := d.app.c.objects.getObject(ctx, m.Object)
		if err != nil {
			return false, "", applyError(m, err)
		}
		if o == nil {
			return false, fmt.Sprintf("%s %s is not there", m.Object.GetKind(), m.Object.GetName()), nil
		}
		d.noteObserved(m, o.Object)
		if i > 0 {
			continue
		}
		if ok, message, err = d.plan.Health(component, at, o); err != nil || !ok {
			return false, message, err
		}
	}
	return ok, message, nil
}

// noteObserved keeps an object as the server has it, for the outputs of its component.
func (d *delivery) noteObserved(m plan.Manifest, object map[string]any) {
	if !d.observes {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live == nil {
		d.live = map[output]map[string]any{}
	}
	d.live[output{m.Component, m.Cluster, m.Output}] = object
}

// observedObjects returns what the component of a task made, as the server has it.
func (d *delivery) observedObjects(t plan.Task) plan.Objects {
	out := plan.Objects{Outputs: map[string]any{}}
	if t.Component == nil {
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, o := range d.live {
		switch {
		case k.component != t.Component.Name || k.cluster != t.At.Cluster:
		case k.name == "":
			out.Output = o
		default:
			out.Outputs[k.name] = o
		}
	}
	return out
}

// reportService says in the status how a component is and what it made.
func (d *delivery) reportService(component api.Component, at plan.Place, manifests []plan.Manifest, healthy bool, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.app.object.Status
	gvk := manifests[0].Object.GroupVersionKind()
	service := api.Service{
		Name: component.Name, Namespace: cmp.Or(at.Namespace, d.app.object.Namespace), Cluster: at.Cluster, Healthy: healthy, Message: message,
		WorkloadDefinition: metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind},
	}
	if i := slices.IndexFunc(s.Services, func(o api.Service) bool { return o.Name == component.Name && o.Cluster == at.Cluster }); i >= 0 {
		s.Services[i] = service
	} else {
		s.Services = append(s.Services, service)
	}
	for _, m := range manifests {
		r := api.ResourceReference{
			Cluster: at.Cluster, Creator: "workflow", APIVersion: m.Object.GetAPIVersion(), Kind: m.Object.GetKind(), Namespace: m.Object.GetNamespace(), Name: m.Object.GetName(),
		}
		if !slices.Contains(s.AppliedResources, r) {
			s.AppliedResources = append(s.AppliedResources, r)
		}
	}
}

// deployComponents delivers all components to all places: how each is there is looked at
// first, and what is due is applied, several at the same time.
func (d *delivery) deployComponents(ctx context.Context, what plan.Deployment) (ok bool, message string, err error) {
	targets, err := d.plan.Targets(what, d.app.c.clusters)
	if err != nil {
		return false, "", err
	}
	all := newRollout(targets)
	forEach(all, what.Parallelism, func(t *delivered) { t.healthy = d.isHealthy(ctx, t.Component, t.At) })
	var mu sync.Mutex // of healthy: others look whether what they wait for is well by now
	forEach(all, what.Parallelism, func(t *delivered) {
		mu.Lock()
		due := all.isDue(t)
		mu.Unlock()
		if !due {
			return
		}
		var healthy bool
		healthy, t.message, t.err = d.applyComponent(ctx, t.Component, t.At)
		mu.Lock()
		t.healthy = healthy
		mu.Unlock()
	})
	return all.result()
}

// isHealthy looks whether a component that this workflow has sent is well, without
// changing anything. One that was not sent, or cannot be looked at, is not.
func (d *delivery) isHealthy(ctx context.Context, component api.Component, at plan.Place) bool {
	manifests, err := d.plan.Render(component, at)
	if err != nil || !d.isSent(manifests) {
		return false
	}
	ok, message, err := d.checkHealth(ctx, component, at, manifests)
	if err == nil {
		d.reportService(component, at, manifests, ok, message)
	}
	return ok && err == nil
}

// forEach calls f with every delivery, so many at the same time.
func forEach(all rollout, limit int, f func(*delivered)) {
	_ = runParallel(len(all), limit, func(i int) error { // f keeps its own errors
		f(all[i])
		return nil
	})
}
