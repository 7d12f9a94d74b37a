package controller

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// listTrackers returns the trackers of an application, oldest generation first.
// Without the index it goes through all that there are.
func (c *Controller) listTrackers(app *api.Application) ([]*api.Tracker, error) {
	defer c.metrics.own("ListCache", api.KindTracker)()
	var out []*api.Tracker
	seen := 0
	add := func(o any) {
		seen++
		t := o.(*api.Tracker)
		if t.Labels[api.LabelName] == app.Name && t.Labels[api.LabelNamespace] == app.Namespace && t.Labels[api.LabelUID] == string(app.UID) {
			out = append(out, t.Copy())
		}
	}
	if c.o.Features.IndexTrackers {
		all, err := c.trackers.GetIndexer().ByIndex(byApplication, app.Namespace+"/"+app.Name)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			add(o)
		}
	} else if err := cache.ListAll(c.trackers.GetStore(), everything(), add); err != nil {
		return nil, err
	}
	c.metrics.trackers.WithLabelValues("application").Add(float64(seen))
	slices.SortFunc(out, func(a, b *api.Tracker) int { return int(a.Spec.ApplicationGeneration - b.Spec.ApplicationGeneration) })
	return out, nil
}

// findTrackers tells the tracker of this generation from those of earlier ones.
func (p *pass) findTrackers() error {
	all, err := p.c.listTrackers(p.app)
	if err != nil {
		return err
	}
	p.current, p.history = nil, nil
	for _, t := range all {
		if t.Spec.ApplicationGeneration == p.app.Generation && t.DeletionTimestamp == nil {
			p.current = t
		} else {
			p.history = append(p.history, t)
		}
	}
	return nil
}

// allTrackers returns the trackers that are there, the current one last.
func (p *pass) allTrackers() []*api.Tracker {
	if p.current == nil {
		return p.history
	}
	return append(slices.Clip(p.history), p.current)
}

// newTracker returns the tracker of this generation, with nothing in it. Its finalizer
// keeps it until what it holds is gone; it has no owner, for the application may be
// gone before that.
func (p *pass) newTracker() *api.Tracker {
	t := &api.Tracker{TypeMeta: api.TypeOf(api.KindTracker), ObjectMeta: metav1.ObjectMeta{
		Name:       fmt.Sprintf("%s-v%d-%s", p.app.Name, p.app.Generation, p.app.Namespace),
		Finalizers: []string{api.FinalizerTracker},
		Labels: map[string]string{
			api.LabelName: p.app.Name, api.LabelNamespace: p.app.Namespace, api.LabelUID: string(p.app.UID), api.LabelRevision: p.revisionName(),
		},
	}}
	if shard := p.app.Labels[api.LabelShard]; shard != "" {
		t.Labels[api.LabelShard] = shard
	}
	t.Spec = api.TrackerSpec{Type: api.TrackerVersioned, ApplicationGeneration: p.app.Generation}
	t.Spec.Compression.Type = p.c.o.Features.TrackerCompression
	return t
}

// track writes down what is about to be made, before it is made.
func (p *pass) track(ctx context.Context, manifests []plan.Manifest) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.current == nil {
		want := p.newTracker()
		done := p.c.metrics.own("Create", api.KindTracker)
		t, err := p.c.client.Trackers.Create(ctx, want)
		done()
		if apierrors.IsAlreadyExists(err) && p.c.adopts() {
			t, err = p.adoptTracker(ctx, want.Name)
		}
		if err != nil {
			return fmt.Errorf("resource tracker: %w", err)
		}
		p.setCurrent(t)
	}
	t := p.current.Copy()
	for _, m := range manifests {
		managed, err := m.Managed()
		if err != nil {
			return err
		}
		t.Spec.ManagedResources = slices.DeleteFunc(t.Spec.ManagedResources, func(old api.ManagedResource) bool { return old.Key() == managed.Key() })
		t.Spec.ManagedResources = append(t.Spec.ManagedResources, managed)
	}
	return p.updateTracker(ctx, t)
}

func (p *pass) updateTracker(ctx context.Context, t *api.Tracker) error {
	defer p.c.metrics.own("Update", api.KindTracker)()
	t.Spec.Compression.Type = p.c.o.Features.TrackerCompression
	got, err := p.c.client.Trackers.Update(ctx, t)
	if err != nil {
		return fmt.Errorf("resource tracker %s: %w", t.Name, err)
	}
	p.setCurrent(got)
	p.c.memory.wrote(p.key, p.c.trackers.GetStore(), got)
	return nil
}

// setCurrent notes the tracker of this generation as the server has it.
func (p *pass) setCurrent(t *api.Tracker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = t
}

// entry is one object as the last read of this pass found it.
type entry struct {
	*answer // nil: there is none
	err     error
}

// look reads an object that a tracker holds, once in a pass.
func (p *pass) look(ctx context.Context, m api.ManagedResource) entry {
	p.mu.Lock()
	e, ok := p.entries[m.Key()]
	p.mu.Unlock()
	if ok {
		return e
	}
	e.answer, e.err = p.c.objects.read(cluster.In(ctx, m.Cluster), reference(m), nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries[m.Key()] = e
	return e
}

func reference(m api.ManagedResource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(m.APIVersion)
	o.SetKind(m.Kind)
	o.SetNamespace(m.Namespace)
	o.SetName(m.Name)
	return o
}

// keep brings every object of the current tracker back to what was rendered.
func (p *pass) keep(ctx context.Context) error {
	defer p.c.metrics.stage("state-keep")()
	if p.current == nil || p.plan.ApplyOnce {
		return nil
	}
	held := p.current.Spec.ManagedResources
	p.c.drift.retain(p.key, held)
	return parallel(len(held), p.c.o.MaxDispatch, func(i int) error { return p.keepOne(ctx, held[i]) })
}

func (p *pass) keepOne(ctx context.Context, m api.ManagedResource) error {
	drift, kind := p.c.drift, schema.GroupVersionResource{}
	if m.Cluster != "" {
		drift = nil // members are not watched
	}
	if drift != nil {
		mapping, err := p.c.objects.mapping(schema.FromAPIVersionAndKind(m.APIVersion, m.Kind))
		if err != nil {
			return fmt.Errorf("%s %s: %w", m.Kind, m.Name, err)
		}
		kind = mapping.Resource
	}
	if drift.unchanged(p.key, kind, m) {
		return nil
	}
	drift.follow(p.key, kind, m)
	e := p.look(ctx, m)
	if e.err != nil {
		return e.err
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(m.Raw); err != nil {
		return fmt.Errorf("%s %s as it was rendered: %w", m.Kind, m.Name, err)
	}
	same, err := p.c.objects.applyOver(cluster.In(ctx, m.Cluster), e.answer, want, false)
	if err != nil {
		return err
	}
	if same == nil {
		drift.changed(p.key, kind, m)
	} else {
		drift.same(p.key, kind, m, same.object)
	}
	return nil
}

// collectGarbage goes through mark, sweep and finalize: trackers of earlier
// generations, or of an application that is going, are deleted; a deleted one goes
// when nothing that it alone holds is left; what it alone holds is deleted.
func (p *pass) collectGarbage(ctx context.Context, mark bool) (finished bool, err error) {
	defer p.c.metrics.stage("gc-rt")()
	executor := p.executors()
	if mark {
		if err := p.mark(ctx); err != nil {
			return false, err
		}
	}
	if finished, err = p.sweep(ctx, executor); err != nil || finished {
		return finished, err
	}
	defer p.c.metrics.stage("gc-rt.finalize")()
	for _, t := range p.allTrackers() {
		if t.DeletionTimestamp == nil {
			continue
		}
		for _, m := range t.Spec.ManagedResources {
			if executor[m.Key()] != t.Name {
				continue
			}
			e := p.look(ctx, m)
			if e.err != nil {
				return false, e.err
			}
			if e.answer == nil || p.foreign(e.object) {
				continue
			}
			if err := p.c.objects.delete(cluster.In(ctx, m.Cluster), e.object); err != nil {
				return false, fmt.Errorf("delete %s %s: %w", m.Kind, m.Name, err)
			}
		}
	}
	return false, nil
}

// foreign says whether an object is another application's by now, which it stays.
func (p *pass) foreign(o *unstructured.Unstructured) bool {
	l := o.GetLabels()
	return l[api.LabelName] != p.app.Name || l[api.LabelNamespace] != p.app.Namespace
}

// executors says which tracker may delete each object: the latest that holds it.
func (p *pass) executors() map[string]string {
	defer p.c.metrics.stage("gc-rt.init")()
	out := map[string]string{}
	for _, t := range p.allTrackers() {
		for _, m := range t.Spec.ManagedResources {
			out[m.Key()] = t.Name
		}
	}
	return out
}

func (p *pass) mark(ctx context.Context) error {
	defer p.c.metrics.stage("gc-rt.mark")()
	inactive := p.history
	if p.app.DeletionTimestamp != nil {
		inactive = p.allTrackers()
	}
	for _, t := range inactive {
		if t.DeletionTimestamp != nil {
			continue
		}
		done := p.c.metrics.own("Delete", api.KindTracker)
		err := p.c.client.Trackers.Delete(ctx, t)
		done()
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("delete resource tracker %s: %w", t.Name, err)
		}
		p.c.memory.gone(p.key, t)
		p.marked = true
	}
	return nil
}

func (p *pass) sweep(ctx context.Context, executor map[string]string) (finished bool, err error) {
	defer p.c.metrics.stage("gc-rt.sweep")()
	finished = !p.marked
	for _, t := range p.allTrackers() {
		if t.DeletionTimestamp == nil {
			continue
		}
		clear, err := p.recycled(ctx, t, executor)
		if err != nil {
			return false, err
		}
		if !clear {
			finished = false
			continue
		}
		t = t.Copy()
		t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == api.FinalizerTracker })
		done := p.c.metrics.own("Update", api.KindTracker)
		_, err = p.c.client.Trackers.Update(ctx, t)
		done()
		if ignoreNotFound(err) != nil {
			return false, fmt.Errorf("resource tracker %s: %w", t.Name, err)
		}
		p.c.memory.gone(p.key, t)
	}
	return finished, nil
}

// recycled says whether nothing is left that a tracker alone holds.
func (p *pass) recycled(ctx context.Context, t *api.Tracker, executor map[string]string) (bool, error) {
	for _, m := range t.Spec.ManagedResources {
		if executor[m.Key()] != t.Name {
			continue
		}
		e := p.look(ctx, m)
		if e.err != nil {
			return false, fmt.Errorf("%s %s: %w", m.Kind, m.Name, e.err)
		}
		if e.answer != nil && !p.foreign(e.object) {
			return false, nil
		}
	}
	return true, nil
}
