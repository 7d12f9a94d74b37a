package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// keepState brings every object of the current tracker back to what was rendered, and
// reports what was put right and what hinders that.
func (t *trackers) keepState(ctx context.Context, applyOnce bool) error {
	var done repairs
	err := t.keepObjects(done.withRepairs(ctx), applyOnce)
	if what := done.sentence(); what != "" {
		t.app.event(corev1.EventTypeWarning, "Repaired", "put right: "+what) // passes use up what is sent of normal ones
		t.app.c.o.Log.Info("drift is repaired", "application", t.app.key, "objects", what)
	}
	t.app.setResult("StateKeep", "FailedStateKeep", err)
	return err
}

func (t *trackers) keepObjects(ctx context.Context, applyOnce bool) error {
	c := t.app.c
	defer c.metrics.timeStage("state-keep")()
	if t.current == nil || applyOnce {
		return nil
	}
	held := t.current.Spec.ManagedResources
	c.drift.retain(t.app.key, held)
	return parallel(len(held), c.o.MaxDispatch, func(i int) error { return t.keepObject(ctx, held[i]) })
}

func (t *trackers) keepObject(ctx context.Context, m api.ManagedResource) error {
	c, key := t.app.c, t.app.key
	drift, kind := c.drift, schema.GroupVersionResource{}
	if m.Cluster != "" {
		drift = nil // members are not watched
	}
	if drift != nil {
		mapping, err := c.objects.mapping(schema.FromAPIVersionAndKind(m.APIVersion, m.Kind))
		if err != nil {
			return fmt.Errorf("%s %s: %w", m.Kind, m.Name, err)
		}
		kind = mapping.Resource
	}
	if drift.isUnchanged(key, kind, m) {
		return nil
	}
	drift.follow(key, kind, m)
	r := t.readObject(ctx, m)
	if r.err != nil {
		return r.err
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(m.Raw); err != nil {
		return fmt.Errorf("%s %s as it was rendered: %w", m.Kind, m.Name, err)
	}
	same, err := c.objects.applyOver(cluster.In(ctx, m.Cluster), r.answer, want, false)
	if err != nil {
		return err
	}
	if same == nil {
		drift.markChanged(key, kind, m)
	} else {
		drift.markUnchanged(key, kind, m, same.object)
	}
	return nil
}
