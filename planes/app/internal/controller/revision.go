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

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// revisionName returns the name of the revision that this pass works on.
func (p *pass) revisionName() string { return p.app.Name + "-v" + strconv.FormatInt(p.number, 10) }

// listRevisions returns the kept revisions of the application, oldest first.
func (c *Controller) listRevisions(app *api.Application) ([]*api.Revision, error) {
	defer c.metrics.own("ListCache", api.KindRevision)()
	all, err := c.revisions.GetIndexer().ByIndex(byApplication, app.Namespace+"/"+app.Name)
	if err != nil {
		return nil, err
	}
	var out []*api.Revision
	for _, o := range all {
		if r := o.(*api.Revision); r.DeletionTimestamp == nil && metav1.IsControlledBy(r, app) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *api.Revision) int { return int(numberOf(a) - numberOf(b)) })
	return out, nil
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

// prepareRevision decides which revision the application is: one that is kept, or
// the next one.
func (p *pass) prepareRevision() error {
	defer p.c.metrics.stage("prepare-current-apprev")()
	var err error
	content := any(p.app.Spec)
	if p.plan.Workflow != nil && p.plan.Workflow.Ref != "" {
		content = []any{p.app.Spec, p.plan.Workflow}
	}
	if p.hash, err = api.Hash(content); err != nil {
		return err
	}
	latest := p.app.Status.LatestRevision
	if p.c.o.Features.DisableRevision {
		p.number, p.isNew = 1, latest == nil || latest.RevisionHash != p.hash
		if latest != nil {
			p.number = latest.Revision
			if p.isNew {
				p.number++
			}
		}
		return nil
	}
	if p.kept, err = p.c.listRevisions(p.app); err != nil {
		return err
	}
	for _, r := range slices.Backward(p.kept) {
		if r.Labels[api.LabelRevisionHash] == p.hash {
			p.stored, p.number = r, numberOf(r)
			break
		}
	}
	if p.stored == nil {
		p.number = 1
		if n := len(p.kept); n > 0 {
			p.number = numberOf(p.kept[n-1]) + 1
		}
		if latest != nil {
			p.number = max(p.number, latest.Revision+1)
		}
	}
	p.freeze()
	p.isNew = latest == nil || latest.Name != p.revisionName()
	return nil
}

// freeze makes an application that is published already stay with the definitions
// that it was published with, unless its annotation says that it follows them.
func (p *pass) freeze() {
	if p.stored == nil {
		return
	}
	c := &p.stored.Spec.RevisionContent
	follow := p.app.Annotations[api.AnnotationAutoUpdate] == "true"
	for kind, kept := range map[string]map[string]*api.Definition{
		api.KindComponent: c.ComponentDefinitions, api.KindTrait: c.TraitDefinitions, api.KindStep: c.WorkflowStepDefinitions,
	} {
		for name, live := range p.plan.Definitions[kind] {
			old := kept[name]
			switch {
			case old == nil || reflect.DeepEqual(old.Spec, live.Spec):
			case follow:
				p.stored, p.number = nil, numberOf(p.kept[len(p.kept)-1])+1
				return
			default:
				p.plan.Definitions[kind][name] = old
			}
		}
	}
}

// wantedRevision returns the revision as it should be kept. Definitions of traits go
// in as they are in the cache, with all their metadata, of which the server keeps a
// part: so KubeVela has it, and writes such a revision once more in the next pass.
func (p *pass) wantedRevision() *api.Revision {
	r := &api.Revision{TypeMeta: api.TypeOf(api.KindRevision), ObjectMeta: metav1.ObjectMeta{
		Name: p.revisionName(), Namespace: p.app.Namespace,
		Labels:          map[string]string{api.LabelName: p.app.Name, api.LabelRevisionHash: p.hash},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.app, api.GroupVersion().WithKind(api.KindApplication))},
	}}
	if shard := p.app.Labels[api.LabelShard]; shard != "" {
		r.Labels[api.LabelShard] = shard
	}
	c := &r.Spec.RevisionContent
	c.Application = api.Application{TypeMeta: api.TypeOf(api.KindApplication), Spec: p.app.Spec}
	c.Application.Name, c.Application.Namespace = p.app.Name, p.app.Namespace
	trim := func(all map[string]*api.Definition) map[string]*api.Definition {
		out := make(map[string]*api.Definition, len(all))
		for name, d := range all {
			out[name] = trimmed(d)
		}
		return out
	}
	c.ComponentDefinitions, c.WorkflowStepDefinitions = trim(p.plan.Definitions[api.KindComponent]), trim(p.plan.Definitions[api.KindStep])
	c.TraitDefinitions = p.plan.Definitions[api.KindTrait]
	if p.c.o.Features.CompressFirst {
		c.TraitDefinitions = trim(c.TraitDefinitions)
		r.Spec.Compression.Type = p.c.o.Features.RevisionCompression
	}
	for i, policy := range p.app.Spec.Policies {
		if c.Policies == nil {
			c.Policies = map[string]*api.Policy{}
		}
		c.Policies[policy.Name] = &p.app.Spec.Policies[i]
	}
	if p.plan.Workflow != nil && p.plan.Workflow.Ref != "" {
		c.Workflow = p.plan.Workflow
	}
	return r
}

// trimmed returns a definition with the metadata that a revision keeps of it.
func trimmed(d *api.Definition) *api.Definition {
	return &api.Definition{
		TypeMeta:   d.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: d.Labels, Annotations: d.Annotations, Finalizers: d.Finalizers},
		Spec:       d.Spec,
	}
}

// applyRevision creates the revision, or brings the one that is kept to what is wanted.
func (p *pass) applyRevision(ctx context.Context) error {
	defer p.c.metrics.stage("apply-apprev")()
	f := p.c.o.Features
	if f.DisableRevision {
		return nil
	}
	want := p.wantedRevision()
	if p.stored == nil {
		r, err := p.c.createRevision(ctx, want)
		if apierrors.IsAlreadyExists(err) { // a killed self made it: the cache is behind
			return fmt.Errorf("revision %s: %w", want.Name, p.adoptUnsaid(ctx, err))
		}
		if err != nil {
			return err
		}
		p.stored = r
		p.c.memory.wrote(p.key, p.c.revisions.GetStore(), r)
		return nil
	}
	if f.SkipEqualRevision && maps.Equal(want.Labels, p.stored.Labels) && sameContent(&want.Spec.RevisionContent, &p.stored.Spec.RevisionContent) {
		return nil
	}
	want.ResourceVersion, want.UID = p.stored.ResourceVersion, p.stored.UID
	want.Spec.Compression.Type = f.RevisionCompression
	want.Status = p.stored.Status
	defer p.c.metrics.own("Update", api.KindRevision)()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r, err := p.c.client.Revisions.Update(ctx, want)
	if err != nil {
		return fmt.Errorf("revision %s: %w", want.Name, err)
	}
	p.stored = r
	p.c.memory.wrote(p.key, p.c.revisions.GetStore(), r)
	return nil
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

func (c *Controller) createRevision(ctx context.Context, r *api.Revision) (*api.Revision, error) {
	defer c.metrics.own("Create", api.KindRevision)()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.client.Revisions.Create(ctx, r)
}

// finishRevision writes into the revision how its publishing ended.
func (p *pass) finishRevision(ctx context.Context) error {
	defer p.c.metrics.stage("update-apprev-status")()
	if p.stored == nil {
		return nil
	}
	r := p.stored.Copy()
	r.Status = api.RevisionStatus{Succeeded: p.app.Status.Workflow.Phase == api.WorkflowSucceeded, Workflow: p.app.Status.Workflow}
	defer p.c.metrics.own("StatusUpdate", api.KindRevision)()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	r, err := p.c.client.Revisions.Update(ctx, r, "status")
	if err != nil {
		return fmt.Errorf("status of revision %s: %w", p.stored.Name, err)
	}
	p.stored = r
	p.c.memory.wrote(p.key, p.c.revisions.GetStore(), r)
	return nil
}

// collectRevisions deletes the oldest revisions beyond the limit and the one in use.
func (p *pass) collectRevisions(ctx context.Context) error {
	defer p.c.metrics.stage("gc-rev")()
	defer p.c.metrics.stage("gc-rev.apprev")()
	excess := len(p.kept) - p.c.o.RevisionLimit - 1
	for _, r := range p.kept {
		if excess <= 0 {
			return nil
		}
		if r.Name == p.revisionName() {
			continue
		}
		done := p.c.metrics.own("Delete", api.KindRevision)
		err := p.c.client.Revisions.Delete(ctx, r)
		done()
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete revision %s: %w", r.Name, err)
		}
		excess--
	}
	return nil
}
