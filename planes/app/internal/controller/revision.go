package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// revisions are the kept revisions of the application of a pass, and the one that the
// pass works on.
type revisions struct {
	app    *application
	plan   *plan.Plan
	hash   string
	number int64
	isNew  bool            // the status of the application names another one
	stored *api.Revision   // the one that the pass works on; nil before it is created
	kept   []*api.Revision // oldest first
}

// revisionName returns the name of the revision that the pass works on.
func (r *revisions) revisionName() string {
	return r.app.object.Name + "-v" + strconv.FormatInt(r.number, 10)
}

// listRevisions returns the kept revisions of the application, oldest first.
func (c *Controller) listRevisions(app *api.Application) []*api.Revision {
	defer c.metrics.timeOwnRequest("ListCache", api.KindRevision)()
	index, key := byApplication, app.Namespace+"/"+app.Name
	if !c.o.Features.IndexLists { // all of the namespace
		index, key = cache.NamespaceIndex, app.Namespace
	}
	out := slim.ByIndex[*api.Revision](c.revisions, index, key)
	c.metrics.revisions.Add(float64(len(out)))
	out = slices.DeleteFunc(out, func(r *api.Revision) bool {
		return r.Labels[api.LabelName] != app.Name || r.DeletionTimestamp != nil || !metav1.IsControlledBy(r, app)
	})
	slices.SortFunc(out, func(a, b *api.Revision) int { return int(numberOf(a) - numberOf(b)) })
	return out
}

// numberOf returns the N of APP-vN.
func numberOf(r *api.Revision) int64 {
	name := r.Name
	for i := len(name) - 1; i > 0; i-- {
		if name[i] == 'v' {
			n, err := strconv.ParseInt(name[i+1:], 10, 64)
			if err == nil {
				return n
			}
			break
		}
	}
	return 0
}

// prepareRevision decides which revision the application is.
func (r *revisions) prepareRevision() error {
	c := r.app.c
	defer c.metrics.timeStage("prepare-current-apprev")()
	content := any(r.app.object.Spec)
	if r.plan.Refers() {
		content = []any{r.app.object.Spec, r.plan.Workflow}
	}
	hash, err := api.Hash(content)
	if err != nil {
		return err
	}
	r.hash = hash
	if c.o.Features.DisableRevision {
		r.chooseByStatus()
		return nil
	}
	r.kept = c.listRevisions(r.app.object)
	r.chooseRevision()
	return nil
}

// chooseByStatus decides by the status of the application alone: no revision is kept.
func (r *revisions) chooseByStatus() {
	latest := r.app.object.Status.LatestRevision
	r.number, r.isNew = 1, latest == nil || latest.RevisionHash != r.hash
	if latest != nil {
		r.number = latest.Revision
		if r.isNew {
			r.number++
		}
	}
}

// chooseRevision decides for the latest kept revision of the same content, or else for the next
// one.
func (r *revisions) chooseRevision() {
	for _, kept := range slices.Backward(r.kept) {
		if kept.Labels[api.LabelRevisionHash] == r.hash {
			r.stored, r.number = kept, numberOf(kept)
			break
		}
	}
	if r.stored == nil {
		r.number = r.nextNumber()
	}
	r.freezeDefinitions()
	latest := r.app.object.Status.LatestRevision
	r.isNew = latest == nil || latest.Name != r.revisionName()
}

// nextNumber returns the number of a new revision: one that no kept one has, and that the
// status never named.
func (r *revisions) nextNumber() int64 {
	number := int64(1)
	if n := len(r.kept); n > 0 {
		number = numberOf(r.kept[n-1]) + 1
	}
	if latest := r.app.object.Status.LatestRevision; latest != nil {
		number = max(number, latest.Revision+1)
	}
	return number
}

// freezeDefinitions makes an application that is published already stay with the definitions
// that it was published with, unless its annotation says that it follows them.
func (r *revisions) freezeDefinitions() {
	if r.stored == nil {
		return
	}
	c := &r.stored.Spec.RevisionContent
	follow := r.app.object.Annotations[api.AnnotationAutoUpdate] == "true"
	for kind, kept := range map[string]map[string]*api.Definition{
		api.KindComponent: c.ComponentDefinitions, api.KindTrait: c.TraitDefinitions, api.KindStep: c.WorkflowStepDefinitions,
	} {
		for name, live := range r.plan.Definitions[kind] {
			old := kept[name]
			switch {
			case old == nil || reflect.DeepEqual(old.Spec, live.Spec):
			case follow:
				r.stored, r.number = nil, numberOf(r.kept[len(r.kept)-1])+1
				return
			default:
				r.plan.Definitions[kind][name] = old
			}
		}
	}
}

// newRevision returns the revision as it should be kept. Definitions of traits go in as
// they are in the cache, with all their metadata, of which the server keeps a part: so
// KubeVela has it, and writes such a revision once more in the next pass.
func (r *revisions) newRevision() *api.Revision {
	app, f := r.app.object, r.app.c.o.Features
	out := &api.Revision{TypeMeta: api.TypeOf(api.KindRevision), ObjectMeta: metav1.ObjectMeta{
		Name: r.revisionName(), Namespace: app.Namespace,
		Labels:          map[string]string{api.LabelName: app.Name, api.LabelRevisionHash: r.hash},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, api.GroupVersion().WithKind(api.KindApplication))},
	}}
	if shard := app.Labels[api.LabelShard]; shard != "" {
		out.Labels[api.LabelShard] = shard
	}
	c := &out.Spec.RevisionContent
	c.Application = api.Application{TypeMeta: api.TypeOf(api.KindApplication), Spec: app.Spec}
	c.Application.Name, c.Application.Namespace = app.Name, app.Namespace
	all := r.plan.Definitions
	c.ComponentDefinitions, c.WorkflowStepDefinitions, c.TraitDefinitions = trimAll(all[api.KindComponent]), trimAll(all[api.KindStep]), all[api.KindTrait]
	if f.CompressFirst {
		c.TraitDefinitions = trimAll(c.TraitDefinitions)
		out.Spec.Compression.Type = f.RevisionCompression
	}
	for i, policy := range app.Spec.Policies {
		if c.Policies == nil {
			c.Policies = map[string]*api.Policy{}
		}
		c.Policies[policy.Name] = &app.Spec.Policies[i]
	}
	if r.plan.Refers() {
		c.Workflow = r.plan.Workflow
	}
	return out
}

// trimAll returns definitions with the metadata that a revision keeps of them.
func trimAll(all map[string]*api.Definition) map[string]*api.Definition {
	out := make(map[string]*api.Definition, len(all))
	for name, d := range all {
		out[name] = &api.Definition{
			TypeMeta:   d.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: d.Labels, Annotations: d.Annotations, Finalizers: d.Finalizers},
			Spec:       d.Spec,
		}
	}
	return out
}

// applyRevision creates the revision, or brings the one that is kept to what is wanted.
func (r *revisions) applyRevision(ctx context.Context) error {
	defer r.app.c.metrics.timeStage("apply-apprev")()
	f := r.app.c.o.Features
	if f.DisableRevision {
		return nil
	}
	want := r.newRevision()
	if r.stored == nil {
		return r.createRevision(ctx, want)
	}
	if f.SkipEqualRevision && maps.Equal(want.Labels, r.stored.Labels) && sameContent(&want.Spec.RevisionContent, &r.stored.Spec.RevisionContent) {
		return nil
	}
	want.ResourceVersion, want.UID = r.stored.ResourceVersion, r.stored.UID
	want.Spec.Compression.Type = f.RevisionCompression
	want.Status = r.stored.Status
	ctx, done := r.app.c.requests.beginOwn(ctx, "Update", api.KindRevision)
	defer done()
	got, err := r.app.c.client.Revisions.Update(ctx, want)
	if err != nil {
		return fmt.Errorf("revision %s: %w", want.Name, err)
	}
	r.setStored(got)
	return nil
}

func (r *revisions) createRevision(ctx context.Context, want *api.Revision) error {
	within, done := r.app.c.requests.beginOwn(ctx, "Create", api.KindRevision)
	got, err := r.app.c.client.Revisions.Create(within, want)
	done()
	if apierrors.IsAlreadyExists(err) { // a killed self made it: the cache is behind
		return fmt.Errorf("revision %s: %w", want.Name, adoption{r.app}.adoptUnreported(ctx, err))
	}
	if err == nil {
		r.setStored(got)
	}
	return err
}

// setStored notes the revision as the server has it.
func (r *revisions) setStored(got *api.Revision) {
	was := ""
	if r.stored != nil {
		was = r.stored.ResourceVersion
	}
	r.app.c.unseen.Wrote(r.app.key, api.KindRevision, was, got)
	r.stored = got
}

// sameContent compares what two revisions hold.
func sameContent(a, b *api.RevisionContent) bool {
	return reflect.DeepEqual(a.Application.Spec, b.Application.Spec) && reflect.DeepEqual(a.Policies, b.Policies) && reflect.DeepEqual(a.Workflow, b.Workflow) &&
		sameDefinitions(a.ComponentDefinitions, b.ComponentDefinitions) && sameDefinitions(a.TraitDefinitions, b.TraitDefinitions) &&
		sameDefinitions(a.WorkflowStepDefinitions, b.WorkflowStepDefinitions)
}

func sameDefinitions(a, b map[string]*api.Definition) bool {
	return maps.EqualFunc(a, b, func(x, y *api.Definition) bool {
		return x.UID == y.UID && x.ResourceVersion == y.ResourceVersion && maps.Equal(x.Labels, y.Labels) && maps.Equal(x.Annotations, y.Annotations) &&
			(x == y || reflect.DeepEqual(x.Spec, y.Spec))
	})
}

// finishRevision writes into the revision how its publishing ended.
func (r *revisions) finishRevision(ctx context.Context) error {
	defer r.app.c.metrics.timeStage("update-apprev-status")()
	if r.stored == nil {
		return nil
	}
	next, w := r.stored.Copy(), r.app.object.Status.Workflow
	next.Status = api.RevisionStatus{Succeeded: w.Phase == api.WorkflowSucceeded, Workflow: w}
	ctx, done := r.app.c.requests.beginOwn(ctx, "StatusUpdate", api.KindRevision)
	defer done()
	got, err := r.app.c.client.Revisions.Update(ctx, next, "status")
	if err != nil {
		return fmt.Errorf("status of revision %s: %w", r.stored.Name, err)
	}
	r.setStored(got)
	return nil
}

// collectRevisions deletes the oldest revisions beyond the limit and the one in use.
func (r *revisions) collectRevisions(ctx context.Context) error {
	c := r.app.c
	defer c.metrics.timeStage("gc-rev")()
	defer c.metrics.timeStage("gc-rev.apprev")()
	excess := len(r.kept) - c.o.RevisionLimit - 1
	for _, old := range r.kept {
		if excess <= 0 {
			return nil
		}
		if old.Name == r.revisionName() {
			continue
		}
		within, done := c.requests.beginOwn(ctx, "Delete", api.KindRevision)
		err := c.client.Revisions.Delete(within, old)
		done()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete revision %s: %w", old.Name, err)
		}
		excess--
	}
	return nil
}
