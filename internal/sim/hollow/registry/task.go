package registry

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// Verb is what a task does.
type Verb string

// The verbs of tasks.
const (
	Collect          Verb = "collect"           // delete a dependent none of whose owners exists
	Orphan           Verb = "orphan"            // take a deleted owner from its dependents, and let it go
	DeleteDependents Verb = "delete-dependents" // delete the dependents of a deleted owner, and let it go
	Release          Verb = "release"           // look whether a deleted owner waits for a dependent that has gone
	EmptyNamespace   Verb = "empty-namespace"   // delete what is in a deleted namespace, and let it go
	FillNamespace    Verb = "fill-namespace"    // create the service account and the certificate of a namespace
	RestoreRootCA    Verb = "restore-root-ca"   // restore the certificate of a namespace
	Establish        Verb = "establish"         // accept a CustomResourceDefinition
	EmptyDefinition  Verb = "empty-definition"  // delete the objects of a deleted definition, and let it go
)

// Task is what follows from a write: a controller's reaction. A task looks at what there
// is when it is carried out, so that tasks may be late or come twice.
type Task struct {
	Verb Verb
	Kind *kind.Kind // of the object; nil for namespaces and definitions
	Key  string     // of the object, or the name of the namespace or definition
	UID  types.UID  // of the owner; empty for verbs without one
}

// Do carries out a task and returns the tasks that follow.
func (r *Registry) Do(t Task, now time.Time) []Task {
	switch t.Verb {
	case Collect:
		return r.owners.collectDependent(dependent{t.Kind, t.Key}, now)
	case Orphan:
		return r.owners.orphanDependents(t, now)
	case DeleteDependents:
		return r.owners.deleteDependents(t, now)
	case Release:
		return r.owners.releaseOwner(t)
	case EmptyNamespace:
		return r.namespaces.emptyNamespace(t.Key, now)
	case FillNamespace:
		return r.namespaces.fillNamespace(t.Key, now)
	case RestoreRootCA:
		return r.namespaces.restoreRootCA(t.Key, now)
	case Establish:
		return r.definer.establishDefinition(t.Key, now)
	case EmptyDefinition:
		return r.definer.emptyDefinition(t.Key, now)
	}
	return nil
}

// afterWrite returns what follows from an object that was stored.
func (r *Registry) afterWrite(k *kind.Kind, o runtime.Object, now time.Time) (out []Task) {
	m := kind.Meta(o)
	deleting := m.GetDeletionTimestamp() != nil
	switch o := o.(type) {
	case *corev1.Namespace:
		if !deleting { // at once: who creates a namespace need not wait for its content
			out = r.namespaces.fillNamespace(o.Name, now)
		} else if len(o.Spec.Finalizers) > 0 {
			out = []Task{{Verb: EmptyNamespace, Key: o.Name}}
		}
	case *corev1.ConfigMap:
		out = r.namespaces.checkRootCA(o)
	case *apiextensionsv1.CustomResourceDefinition:
		out = r.definer.serveDefinition(o)
	}
	out = append(out, r.owners.linkOwners(k, m)...)
	if deleting && len(m.GetFinalizers()) > 0 {
		out = append(out, releaseTasks(k, m)...)
	}
	return out
}

// afterRemoval returns what follows from an object that was removed.
func (r *Registry) afterRemoval(k *kind.Kind, o runtime.Object) []Task {
	m := kind.Meta(o)
	out := r.owners.unlinkOwners(k, m)
	out = append(out, r.namespaces.refillNamespace(k, m)...)
	if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		r.definer.stopServing(d)
	}
	if k.Custom != nil {
		out = append(out, r.definer.checkDefinitionWaits(k)...)
	}
	if namespace := m.GetNamespace(); namespace != "" && r.checkNamespace(k, namespace) != nil {
		out = append(out, Task{Verb: EmptyNamespace, Key: namespace})
	}
	return out
}

// deleteAll deletes objects. It returns how many stay because others have to act first.
func (r *Registry) deleteAll(k *kind.Kind, q store.Query, now time.Time) (left int, out []Task) {
	found, err := r.Table(k).List(q)
	if err != nil {
		return 0, nil
	}
	for _, o := range found.Objects {
		if k.Metadata(o.Raw).DeletionTimestamp.IsZero() {
			out = append(out, r.deleteAlways(k, o.Key, metav1.DeleteOptions{}, now)...)
		}
	}
	found, _ = r.Table(k).List(q) // as before
	return len(found.Objects), out
}

// deleteAlways deletes an object, if it still exists, and calls Delete again until no
// other write comes between.
func (r *Registry) deleteAlways(k *kind.Kind, key string, options metav1.DeleteOptions, now time.Time) (out []Task) {
	for {
		done, err := r.Delete(Write{Target: targetOf(k, key), Now: now}, options)
		out = append(out, done.Tasks...)
		if !errors.Is(err, store.ErrChanged) {
			return out
		}
	}
}

// removeFinalizer takes a finalizer from an object.
func (r *Registry) removeFinalizer(k *kind.Kind, key, finalizer string, now time.Time) []Task {
	return r.changeAlways(Change{Write: Write{Target: targetOf(k, key), Now: now}, Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject()
		m := kind.Meta(next)
		m.SetFinalizers(slices.DeleteFunc(m.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return next, nil
	}})
}
