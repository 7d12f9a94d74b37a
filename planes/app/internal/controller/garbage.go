package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// garbage collects what no revision of the application of a pass holds any more.
type garbage struct {
	app      *application
	trackers *trackers
}

// collectGarbage goes through mark, sweep and finalize, and reports what hinders that. A
// conflict is left to the next pass.
func (g *garbage) collectGarbage(ctx context.Context, mark bool) (finished bool, err error) {
	if finished, err = g.markAndSweep(ctx, mark); apierrors.IsConflict(err) {
		return false, err
	}
	g.app.setResult("GarbageCollection", "FailedGC", err)
	if err != nil {
		return false, errors.Join(err, g.app.patchStatus(ctx))
	}
	if !finished {
		g.app.setCondition("Ready", corev1.ConditionFalse, "Deleting", "objects of deleted resource trackers are still there")
	}
	return finished, nil
}

// markAndSweep deletes trackers of earlier generations, or of an application that is
// going; removes a deleted one when nothing that it alone holds is left; and deletes
// what it alone holds.
func (g *garbage) markAndSweep(ctx context.Context, mark bool) (finished bool, err error) {
	defer g.app.c.metrics.timeStage("gc-rt")()
	executor := g.findExecutors()
	if mark {
		if err := g.markTrackers(ctx); err != nil {
			return false, err
		}
	}
	if finished, err = g.sweepTrackers(ctx, executor); err != nil || finished {
		return finished, err
	}
	return false, g.finalizeTrackers(ctx, executor)
}

// finalizeTrackers deletes what only deleted trackers hold.
func (g *garbage) finalizeTrackers(ctx context.Context, executor map[string]string) error {
	defer g.app.c.metrics.timeStage("gc-rt.finalize")()
	for _, t := range g.trackers.allTrackers() {
		if t.DeletionTimestamp == nil {
			continue
		}
		for _, m := range t.Spec.ManagedResources {
			if executor[m.Key()] != t.Name {
				continue
			}
			if err := g.deleteObject(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *garbage) deleteObject(ctx context.Context, m api.ManagedResource) error {
	r := g.trackers.readObject(ctx, m)
	if r.err != nil {
		return r.err
	}
	if r.answer == nil || g.isForeign(r.object) {
		return nil
	}
	if err := g.app.c.objects.deleteObject(cluster.In(ctx, m.Cluster), r.object); err != nil {
		return fmt.Errorf("delete %s %s: %w", m.Kind, m.Name, err)
	}
	return nil
}

// isForeign says whether an object is another application's by now, which it stays.
func (g *garbage) isForeign(o *unstructured.Unstructured) bool {
	l := o.GetLabels()
	return l[api.LabelName] != g.app.object.Name || l[api.LabelNamespace] != g.app.object.Namespace
}

// findExecutors says which tracker may delete each object: the latest that holds it.
func (g *garbage) findExecutors() map[string]string {
	defer g.app.c.metrics.timeStage("gc-rt.init")()
	out := map[string]string{}
	for _, t := range g.trackers.allTrackers() {
		for _, m := range t.Spec.ManagedResources {
			out[m.Key()] = t.Name
		}
	}
	return out
}

func (g *garbage) markTrackers(ctx context.Context) error {
	defer g.app.c.metrics.timeStage("gc-rt.mark")()
	inactive := g.trackers.history
	if g.app.object.DeletionTimestamp != nil {
		inactive = g.trackers.allTrackers()
	}
	for _, t := range inactive {
		if t.DeletionTimestamp != nil {
			continue
		}
		done := g.app.c.metrics.timeOwnRequest("Delete", api.KindTracker)
		err := g.app.c.client.Trackers.Delete(ctx, t)
		done()
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("delete resource tracker %s: %w", t.Name, err)
		}
		g.app.c.unseen.Deleted(g.app.key, api.KindTracker, t)
	}
	return nil
}

func (g *garbage) sweepTrackers(ctx context.Context, executor map[string]string) (finished bool, err error) {
	defer g.app.c.metrics.timeStage("gc-rt.sweep")()
	finished = true // what was marked in this pass shows in the next: its tracker's event starts it
	for _, t := range g.trackers.allTrackers() {
		if t.DeletionTimestamp == nil {
			continue
		}
		clear, err := g.isRecycled(ctx, t, executor)
		if err != nil {
			return false, err
		}
		if !clear {
			finished = false
			continue
		}
		t = t.Copy()
		t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == api.FinalizerTracker })
		done := g.app.c.metrics.timeOwnRequest("Update", api.KindTracker)
		_, err = g.app.c.client.Trackers.Update(ctx, t)
		done()
		if ignoreNotFound(err) != nil {
			return false, fmt.Errorf("resource tracker %s: %w", t.Name, err)
		}
		g.app.c.unseen.Released(g.app.key, api.KindTracker, t)
	}
	return finished, nil
}

// isRecycled says whether nothing is left that a tracker alone holds.
func (g *garbage) isRecycled(ctx context.Context, t *api.Tracker, executor map[string]string) (bool, error) {
	for _, m := range t.Spec.ManagedResources {
		if executor[m.Key()] != t.Name {
			continue
		}
		r := g.trackers.readObject(ctx, m)
		if r.err != nil {
			return false, fmt.Errorf("%s %s: %w", m.Kind, m.Name, r.err)
		}
		if r.answer != nil && !g.isForeign(r.object) {
			return false, nil
		}
	}
	return true, nil
}
