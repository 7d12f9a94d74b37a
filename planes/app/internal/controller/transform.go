package controller

import (
	"errors"
	"sync"

	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// kubectlApplied is the annotation in which kubectl keeps what it applied.
const kubectlApplied = "kubectl.kubernetes.io/last-applied-configuration"

// setTransforms make the caches keep less than the server sends.
func (c *Controller) setTransforms() error {
	shared, f := newDefinitionStore(), c.o.Features
	errs := []error{slim.Keep(c.clusters, slim.Always(nameAndLabels))}
	for _, i := range []cache.SharedIndexInformer{c.applications, c.revisions, c.trackers} {
		errs = append(errs, slim.Keep(i, func(o metav1.Object) (metav1.Object, error) {
			if f.FilterFields {
				filterFields(o)
			}
			compactLists(o)
			if r, ok := o.(*api.Revision); ok && f.ShareDefinitions {
				return r, shared.shareDefinitions(r)
			}
			return o, nil
		}))
	}
	return errors.Join(errs...)
}

// filterFields drops what the controller never looks at.
func filterFields(o metav1.Object) {
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[kubectlApplied] != "" {
		delete(a, kubectlApplied)
		o.SetAnnotations(a)
	}
}

// compactLists gives back the room that decoding leaves at the end of lists: they grow by
// doubling, and were a fifth of what 3,000 applications held.
func compactLists(o any) {
	switch o := o.(type) {
	case *api.Application:
		compactSpec(&o.Spec)
		o.Status.Conditions, o.Status.Services, o.Status.AppliedResources = clipToLength(o.Status.Conditions), clipToLength(o.Status.Services), clipToLength(o.Status.AppliedResources)
		compactWorkflow(o.Status.Workflow)
	case *api.Revision:
		compactSpec(&o.Spec.Application.Spec)
		compactWorkflow(o.Status.Workflow)
	case *api.Tracker:
		o.Spec.ManagedResources = clipToLength(o.Spec.ManagedResources)
	}
}

func compactSpec(s *api.ApplicationSpec) {
	s.Components, s.Policies = clipToLength(s.Components), clipToLength(s.Policies)
	for i := range s.Components {
		s.Components[i].Traits = clipToLength(s.Components[i].Traits)
	}
}

func compactWorkflow(w *api.WorkflowStatus) {
	if w != nil {
		w.Steps = clipToLength(w.Steps)
	}
}

// clipToLength returns a list in as much room as it needs.
func clipToLength[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}

// definitionStore holds one copy of each definition for all revisions that copy it.
// KubeVela counts references and prunes by the hour; here nobody counts: a
// definition that no revision holds is the garbage collector's.
type definitionStore struct {
	mu     sync.Mutex
	byHash map[string]weak.Pointer[api.Definition]
	adds   int
}

func newDefinitionStore() *definitionStore {
	return &definitionStore{byHash: map[string]weak.Pointer[api.Definition]{}}
}

// pruneEvery is after how many new definitions the dead ones are dropped.
const pruneEvery = 1000

// shareDefinitions replaces a revision's definitions by the copies that all share.
func (s *definitionStore) shareDefinitions(r *api.Revision) error {
	c := &r.Spec.RevisionContent
	for _, all := range []map[string]*api.Definition{c.ComponentDefinitions, c.TraitDefinitions, c.WorkflowStepDefinitions} {
		for name, d := range all {
			hash, err := api.Hash(d)
			if err != nil {
				return err
			}
			all[name] = s.sharedDefinition(hash, d)
		}
	}
	return nil
}

func (s *definitionStore) sharedDefinition(hash string, d *api.Definition) *api.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byHash[hash].Value(); old != nil {
		return old
	}
	if s.adds++; s.adds%pruneEvery == 0 {
		for hash, p := range s.byHash {
			if p.Value() == nil {
				delete(s.byHash, hash)
			}
		}
	}
	s.byHash[hash] = weak.Make(d)
	return d
}
