package controller

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// adoptsMoved says whether this controller takes over what other shards made.
func (c *Controller) adoptsMoved() bool { return c.o.Features.AdoptMoved && c.o.ShardID != "" }

// adoption takes over what another shard made of an application.
type adoption struct{ app *application }

// adoptMoved takes over what another shard made of an application, after somebody
// moved it here by its label: its trackers and revisions have the label of the shard
// that made them, so that no cache here shows them. The server is asked only where
// the caches lack what the status names, which no pass over an application does that
// was here before. waits says that the caches have to show first what was taken over.
func (a adoption) adoptMoved(ctx context.Context) (waits bool, err error) {
	if !a.lacksLatest() {
		return false, nil
	}
	if err := a.checkShard(ctx); err != nil {
		return false, err
	}
	defer a.app.c.metrics.timeStage("adopt-moved")()
	trackers, err := a.adoptTrackers(ctx)
	if err != nil {
		return false, err
	}
	revisions, err := a.adoptRevisions(ctx)
	if err != nil {
		return false, err
	}
	if trackers+revisions == 0 {
		return false, nil
	}
	a.app.c.o.Log.Info("takes over a moved application", "application", a.app.key, "trackers", trackers, "revisions", revisions)
	a.app.requeueAfter(0)
	return true, nil
}

// lacksLatest says whether the caches have nothing of the latest revision: it itself
// or, without revisions, the tracker of what was applied. What is taken over last is
// just that, so that who is killed meanwhile begins again.
func (a adoption) lacksLatest() bool {
	latest := a.app.object.Status.LatestRevision
	switch {
	case !a.app.c.adoptsMoved() || latest == nil:
		return false
	case !a.app.c.o.Features.DisableRevision:
		return !slim.Has(a.app.c.revisions, a.app.object.Namespace+"/"+latest.Name)
	case len(a.app.object.Status.AppliedResources) == 0:
		return false
	}
	trackers := a.app.c.listTrackers(a.app.object)
	return !slices.ContainsFunc(trackers, func(t *api.Tracker) bool { return t.Labels[api.LabelRevision] == latest.Name })
}

// checkShard asks the server whether the application is this shard's: where it was moved
// away, its trackers and revisions may leave the caches before it does.
func (a adoption) checkShard(ctx context.Context) error {
	ctx, done := a.app.c.requests.beginOwn(ctx, "Get", api.KindApplication)
	defer done()
	app, err := a.app.c.client.Applications.Get(ctx, a.app.object.Namespace, a.app.object.Name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("application: %w", err)
	case err != nil || app.UID != a.app.object.UID || app.Labels[api.LabelShard] != a.app.c.o.ShardID:
		return fmt.Errorf("the application is another shard's by now (%w)", loop.ErrQuiet) // the cache is about to say so
	}
	return nil
}

// adoptTrackers takes over trackers, that of the latest generation last.
func (a adoption) adoptTrackers(ctx context.Context) (int, error) {
	all, err := listObjects(ctx, a.app.c, a.app.c.client.Trackers, api.KindTracker, "", labels.Set{
		api.LabelName: a.app.object.Name, api.LabelNamespace: a.app.object.Namespace, api.LabelUID: string(a.app.object.UID),
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(all, func(a, b *api.Tracker) int { return int(a.Spec.ApplicationGeneration - b.Spec.ApplicationGeneration) })
	return claimAll(ctx, a.app, a.app.c.client.Trackers, a.app.c.trackers, api.KindTracker, all)
}

// adoptRevisions takes over revisions, the latest last.
func (a adoption) adoptRevisions(ctx context.Context) (int, error) {
	all, err := listObjects(ctx, a.app.c, a.app.c.client.Revisions, api.KindRevision, a.app.object.Namespace, labels.Set{api.LabelName: a.app.object.Name})
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(r *api.Revision) bool { return !metav1.IsControlledBy(r, a.app.object) })
	slices.SortFunc(all, func(a, b *api.Revision) int { return int(numberOf(a) - numberOf(b)) })
	return claimAll(ctx, a.app, a.app.c.client.Revisions, a.app.c.revisions, api.KindRevision, all)
}

// adoptUnreported takes over a revision that another shard made before the status said
// so, and returns the error that ends the pass.
func (a adoption) adoptUnreported(ctx context.Context, cause error) error {
	if !a.app.c.adoptsMoved() {
		return cause
	}
	if err := a.checkShard(ctx); err != nil {
		return err
	}
	if _, err := a.adoptRevisions(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, loop.ErrQuiet)
}

// adoptTracker takes over the tracker of this generation, which another shard made
// before anything said so in the status.
func (a adoption) adoptTracker(ctx context.Context, name string) (*api.Tracker, error) {
	if err := a.checkShard(ctx); err != nil {
		return nil, err
	}
	t, err := a.app.c.client.Trackers.Get(ctx, "", name)
	if err != nil {
		return nil, err
	}
	if t.Labels[api.LabelUID] != string(a.app.object.UID) {
		return nil, fmt.Errorf("it is of an application with UID %s", t.Labels[api.LabelUID])
	}
	return claimObject(ctx, a.app, a.app.c.client.Trackers, api.KindTracker, t)
}

// listObjects asks the server, in one namespace or with an empty one in all, for objects
// with labels.
func listObjects[T resource.Object](ctx context.Context, c *Controller, client resource.Client[T], kind, namespace string, with labels.Set) ([]T, error) {
	ctx, done := c.requests.beginOwn(ctx, "List", kind)
	defer done()
	all, err := client.List(ctx, namespace, with.String())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return all, nil
}

// claimAll claims what a cache does not show, and returns how many those are.
func claimAll[T resource.Object](ctx context.Context, app *application, client resource.Client[T], there cache.SharedIndexInformer, kind string, all []T) (n int, err error) {
	for _, o := range all {
		if slim.Has(there, loop.Key(o)) {
			continue
		}
		if _, err := claimObject(ctx, app, client, kind, o); ignoreNotFound(err) != nil {
			return n, fmt.Errorf("take over %s %s: %w", kind, o.GetName(), err)
		}
		n++
	}
	return n, nil
}

// claimObject gives an object the label of this shard, and lets the next pass wait until
// the cache shows it.
func claimObject[T resource.Object](ctx context.Context, app *application, client resource.Client[T], kind string, o T) (T, error) {
	if shard := app.c.o.ShardID; o.GetLabels()[api.LabelShard] != shard {
		ctx, done := app.c.requests.beginOwn(ctx, "Patch", kind)
		defer done()
		body := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, api.LabelShard, shard)
		var err error
		if o, err = client.Patch(ctx, o, resource.Patch{Type: types.MergePatchType, Body: body}); err != nil {
			return o, err
		}
	}
	app.c.unseen.Wrote(app.key, kind, "", o)
	return o, nil
}
