package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// applyComponent applies a component somewhere and says whether it is healthy there.
func (p *pass) applyComponent(ctx context.Context, component api.Component, at plan.Place) (ok bool, message string, err error) {
	begin := p.c.o.Clock.Now()
	defer func() {
		p.c.metrics.components.WithLabelValues("apply-component").Observe(p.c.metrics.since(begin))
	}()
	manifests, err := p.plan.Render(component, at)
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
func (p *pass) tracked(manifests []plan.Manifest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || !p.servedLocked(manifests[0].Component, manifests[0].Cluster) {
		return false
	}
	for _, m := range manifests {
		managed, err := m.Managed()
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
func (p *pass) dispatch(ctx context.Context, manifests []plan.Manifest) error {
	limit := p.c.o.MaxDispatch
	if p.c.o.Features.DryRun {
		if err := parallel(len(manifests), limit, func(i int) error {
			return named(manifests[i], p.c.objects.apply(cluster.In(ctx, manifests[i].Cluster), manifests[i].Object, true))
		}); err != nil {
			return err
		}
	}
	if err := p.track(ctx, manifests); err != nil {
		return err
	}
	return parallel(len(manifests), limit, func(i int) error {
		return named(manifests[i], p.c.objects.apply(cluster.In(ctx, manifests[i].Cluster), manifests[i].Object, false))
	})
}

func named(m plan.Manifest, err error) error {
	if err == nil || errors.Is(err, errForeign) {
		return err
	}
	return fmt.Errorf("component %s: apply %s %s: %w", m.Component, m.Object.GetKind(), m.Object.GetName(), err)
}

// check reads what a component made and asks its definition how it is.
func (p *pass) check(ctx context.Context, component api.Component, at plan.Place, manifests []plan.Manifest) (ok bool, message string, err error) {
	ok, ctx = true, cluster.In(ctx, at.Cluster)
	for i, m := range manifests {
		o, err := p.c.objects.get(ctx, m.Object)
		if err != nil {
			return false, "", named(m, err)
		}
		if o == nil {
			return false, fmt.Sprintf("%s %s is not there", m.Object.GetKind(), m.Object.GetName()), nil
		}
		p.observe(m, o.Object)
		if i > 0 {
			continue
		}
		if ok, message, err = p.plan.Health(component, at, o); err != nil || !ok {
			return false, message, err
		}
	}
	return ok, message, nil
}

// observe keeps an object as the server has it, for the outputs of its component.
func (p *pass) observe(m plan.Manifest, object map[string]any) {
	if !p.graph.HasOutputs() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		p.live = map[[3]string]map[string]any{}
	}
	p.live[[3]string{m.Component, m.Cluster, m.Output}] = object
}

// observed returns what a component made somewhere, as the server has it.
func (p *pass) observed(component string, at plan.Place) plan.Objects {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := plan.Objects{Outputs: map[string]any{}}
	for k, o := range p.live {
		switch {
		case k[0] != component || k[1] != at.Cluster:
		case k[2] == "":
			out.Output = o
		default:
			out.Outputs[k[2]] = o
		}
	}
	return out
}

// serve says in the status how a component is and what it made.
func (p *pass) serve(component api.Component, at plan.Place, manifests []plan.Manifest, healthy bool, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.app.Status
	gvk := manifests[0].Object.GroupVersionKind()
	service := api.Service{
		Name: component.Name, Namespace: cmp.Or(at.Namespace, p.app.Namespace), Cluster: at.Cluster, Healthy: healthy, Message: message,
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

func contextName(app *api.Application) string { return "workflow-" + app.Name + "-context" }

// stepValues are what the steps of one revision gave to others.
type stepValues struct {
	Revision string                     `json:"revision"`
	Values   map[string]json.RawMessage `json:"values"`
}

// valuesKey is where they are in the ConfigMap.
const valuesKey = "outputs"

// openContext reads the state that steps hand to each other, or makes it.
func (p *pass) openContext(ctx context.Context) error {
	p.values = map[string]json.RawMessage{}
	if p.c.o.Features.InMemoryContext {
		p.loadContext(p.c.memory.kept(p.key))
		return nil
	}
	cm, err := p.readContext(ctx)
	if err != nil {
		return err
	}
	if cm != nil {
		var v stepValues
		if json.Unmarshal([]byte(cm.Data[valuesKey]), &v) == nil { // what somebody else wrote into it is not used
			p.loadContext(v)
		}
		return nil
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

// loadContext takes values over that are of this revision.
func (p *pass) loadContext(v stepValues) {
	if v.Revision == p.revisionName() {
		maps.Copy(p.values, v.Values)
	}
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

// saveContext stores that a step ran, and the outputs of all steps.
func (p *pass) saveContext(ctx context.Context, name string) error {
	given := stepValues{p.revisionName(), p.values}
	if p.c.o.Features.InMemoryContext {
		p.c.memory.keep(p.key, given)
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
	data := map[string]string{"vars": string(raw)}
	if len(p.values) > 0 {
		values, err := json.Marshal(given)
		if err != nil {
			return fmt.Errorf("workflow context: %w", err)
		}
		data[valuesKey] = string(values)
	}
	body, err := json.Marshal(map[string]any{"data": data})
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
