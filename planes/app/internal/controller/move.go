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

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/internal/subject/kit/resource"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// adopts says whether this controller takes over what other shards made.
func (c *Controller) adopts() bool { return c.o.Features.AdoptMoved && c.o.Shard != "" }

// adoptMoved takes over what another shard made of an application, after somebody
// moved it here by its label: its trackers and revisions have the label of the shard
// that made them, so that no cache here shows them. The server is asked only where
// the caches lack what the status names, which no pass over an application does that
// was here before. waits says that the caches have to show first what was taken over.
func (p *pass) adoptMoved(ctx context.Context) (waits bool, err error) {
	if lacks, err := p.lacksLatest(); err != nil || !lacks {
		return false, err
	}
	if err := p.owns(ctx); err != nil {
		return false, err
	}
	defer p.c.metrics.stage("adopt-moved")()
	trackers, err := p.adoptTrackers(ctx)
	if err != nil {
		return false, err
	}
	revisions, err := p.adoptRevisions(ctx)
	if err != nil {
		return false, err
	}
	if trackers+revisions == 0 {
		return false, nil
	}
	p.c.o.Log.Info("takes over a moved application", "application", p.key, "trackers", trackers, "revisions", revisions)
	p.c.loop.Queue.AddAfter(p.key, behind)
	return true, nil
}

// lacksLatest says whether the caches have nothing of the latest revision: it itself
// or, without revisions, the tracker of what was applied. What is taken over last is
// just that, so that who is killed meanwhile begins again.
func (p *pass) lacksLatest() (bool, error) {
	latest := p.app.Status.LatestRevision
	if !p.c.adopts() || latest == nil {
		return false, nil
	}
	if !p.c.o.Features.DisableRevision {
		_, exists, err := p.c.revisions.GetStore().GetByKey(p.app.Namespace + "/" + latest.Name)
		return !exists, err
	}
	if len(p.app.Status.AppliedResources) == 0 {
		return false, nil
	}
	trackers, err := p.c.listTrackers(p.app)
	return !slices.ContainsFunc(trackers, func(t *api.Tracker) bool { return t.Labels[api.LabelRevision] == latest.Name }), err
}

// owns asks the server whether the application is this shard's: where it was moved
// away, its trackers and revisions may leave the caches before it does.
func (p *pass) owns(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer p.c.metrics.own("Get", api.KindApplication)()
	app, err := p.c.client.Applications.Get(ctx, p.app.Namespace, p.app.Name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("application: %w", err)
	case err != nil || app.UID != p.app.UID || app.Labels[api.LabelShard] != p.c.o.Shard:
		return fmt.Errorf("the application is another shard's by now (%w)", loop.ErrQuiet) // the cache is about to say so
	}
	return nil
}

// adoptTrackers takes over trackers, that of the latest generation last.
func (p *pass) adoptTrackers(ctx context.Context) (int, error) {
	all, err := list(ctx, p.c, p.c.client.Trackers, api.KindTracker, "", labels.Set{
		api.LabelName: p.app.Name, api.LabelNamespace: p.app.Namespace, api.LabelUID: string(p.app.UID),
	})
	if err != nil {
		return 0, err
	}
	slices.SortFunc(all, func(a, b *api.Tracker) int { return int(a.Spec.ApplicationGeneration - b.Spec.ApplicationGeneration) })
	return claimAll(ctx, p, p.c.client.Trackers, p.c.trackers.GetStore(), api.KindTracker, all)
}

// adoptRevisions takes over revisions, the latest last.
func (p *pass) adoptRevisions(ctx context.Context) (int, error) {
	all, err := list(ctx, p.c, p.c.client.Revisions, api.KindRevision, p.app.Namespace, labels.Set{api.LabelName: p.app.Name})
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(r *api.Revision) bool { return !metav1.IsControlledBy(r, p.app) })
	slices.SortFunc(all, func(a, b *api.Revision) int { return int(numberOf(a) - numberOf(b)) })
	return claimAll(ctx, p, p.c.client.Revisions, p.c.revisions.GetStore(), api.KindRevision, all)
}

// adoptUnsaid takes over a revision that another shard made before the status said
// so, and returns the error that ends the pass.
func (p *pass) adoptUnsaid(ctx context.Context, cause error) error {
	if !p.c.adopts() {
		return cause
	}
	if err := p.owns(ctx); err != nil {
		return err
	}
	if _, err := p.adoptRevisions(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, loop.ErrQuiet)
}

// adoptTracker takes over the tracker of this generation, which another shard made
// before anything said so in the status.
func (p *pass) adoptTracker(ctx context.Context, name string) (*api.Tracker, error) {
	if err := p.owns(ctx); err != nil {
		return nil, err
	}
	t, err := p.c.client.Trackers.Get(ctx, "", name)
	if err != nil {
		return nil, err
	}
	if t.Labels[api.LabelUID] != string(p.app.UID) {
		return nil, fmt.Errorf("it is of an application with UID %s", t.Labels[api.LabelUID])
	}
	return claim(ctx, p, p.c.client.Trackers, p.c.trackers.GetStore(), api.KindTracker, t)
}

// list asks the server, in one namespace or with an empty one in all, for objects
// with labels.
func list[T resource.Object](ctx context.Context, c *Controller, client resource.Client[T], kind, namespace string, with labels.Set) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer c.metrics.own("List", kind)()
	all, err := client.List(ctx, namespace, with.String())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	return all, nil
}

// claimAll claims what a cache does not show, and returns how many those are.
func claimAll[T resource.Object](ctx context.Context, p *pass, client resource.Client[T], store cache.Store, kind string, all []T) (n int, err error) {
	for _, o := range all {
		if _, exists, err := store.Get(o); err != nil {
			return n, err
		} else if exists {
			continue
		}
		if _, err := claim(ctx, p, client, store, kind, o); ignoreNotFound(err) != nil {
			return n, fmt.Errorf("take over %s %s: %w", kind, o.GetName(), err)
		}
		n++
	}
	return n, nil
}

// claim gives an object the label of this shard, and lets the next pass wait until
// the cache shows it.
func claim[T resource.Object](ctx context.Context, p *pass, client resource.Client[T], store cache.Store, kind string, o T) (T, error) {
	if shard := p.c.o.Shard; o.GetLabels()[api.LabelShard] != shard {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		defer p.c.metrics.own("Patch", kind)()
		body := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, api.LabelShard, shard)
		var err error
		if o, err = client.Patch(ctx, o, resource.Patch{Type: types.MergePatchType, Body: body}); err != nil {
			return o, err
		}
	}
	p.c.memory.wrote(p.key, store, o)
	return o, nil
}
