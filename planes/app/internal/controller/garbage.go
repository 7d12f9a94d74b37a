package controller

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	done := g.app.c.metrics.timeStage("gc-rt.init")
	c := newCollection(g.trackers.allTrackers(), g.trackers.current, g.app.object.DeletionTimestamp != nil)
	done()
	if mark {
		if err := g.runStage(ctx, "mark", c, c.mark); err != nil {
			return false, err
		}
	}
	if err := g.runStage(ctx, "sweep", c, c.sweep); err != nil || c.finished {
		return err == nil, err
	}
	return false, g.runStage(ctx, "finalize", c, c.finalize)
}

// runStage carries out the actions of a stage, up to the first that fails.
func (g *garbage) runStage(ctx context.Context, name string, c *collection, actions iter.Seq[collectAction]) error {
	defer g.app.c.metrics.timeStage("gc-rt." + name)()
	for a := range actions {
		var err error
		switch a.verb {
		case deleteTracker:
			err = g.deleteTracker(ctx, a.tracker)
		case releaseTracker:
			err = g.releaseTracker(ctx, a.tracker)
		case readHeld:
			r := g.trackers.readObject(ctx, a.object)
			c.owned[a.object.Key()] = r.answer != nil && !g.isForeign(r.object)
			err = r.err
		case deleteHeld:
			err = g.app.c.objects.deleteObject(cluster.In(ctx, a.object.Cluster), g.trackers.readObject(ctx, a.object).object)
		}
		switch {
		case err != nil && a.tracker != nil:
			return fmt.Errorf("%s %s: %w", a.verb, a.tracker.Name, err)
		case err != nil:
			return fmt.Errorf("%s %s %s: %w", a.verb, a.object.Kind, a.object.Name, err)
		}
	}
	return nil
}

// isForeign says whether an object is another application's by now, which it stays.
func (g *garbage) isForeign(o *unstructured.Unstructured) bool {
	l := o.GetLabels()
	return l[api.LabelName] != g.app.object.Name || l[api.LabelNamespace] != g.app.object.Namespace
}

func (g *garbage) deleteTracker(ctx context.Context, t *api.Tracker) error {
	within, done := g.app.c.requests.beginOwn(ctx, "Delete", api.KindTracker)
	err := g.app.c.client.Trackers.Delete(within, t)
	done()
	if ignoreNotFound(err) != nil {
		return err
	}
	g.app.c.unseen.Deleted(g.app.key, api.KindTracker, t)
	return nil
}

func (g *garbage) releaseTracker(ctx context.Context, t *api.Tracker) error {
	t = t.Copy()
	t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == api.FinalizerTracker })
	within, done := g.app.c.requests.beginOwn(ctx, "Update", api.KindTracker)
	_, err := g.app.c.client.Trackers.Update(within, t)
	done()
	if ignoreNotFound(err) != nil {
		return err
	}
	g.app.c.unseen.Released(g.app.key, api.KindTracker, t)
	return nil
}
