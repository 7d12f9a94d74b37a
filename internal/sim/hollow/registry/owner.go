package registry

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// dependent is an object that has an owner.
type dependent struct {
	kind *kind.Kind
	key  string
}

// collector is the garbage collector: it knows which objects belong to which owners.
type collector struct {
	registry *Registry
	links    store.Links[types.UID, dependent]
}

// linkOwners links an object to its owners. An object none of whose owners exists is
// collected.
func (c *collector) linkOwners(k *kind.Kind, m metav1.Object) []Task {
	refs := m.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	d := dependent{k, kind.Key(m.GetNamespace(), m.GetName())}
	added, exists := false, false
	for _, ref := range refs {
		added = c.links.Add(ref.UID, d) || added
		exists = exists || c.ownerExists(m.GetNamespace(), ref)
	}
	if !added || exists {
		return nil
	}
	return []Task{{Verb: Collect, Kind: k, Key: d.key}}
}

// unlinkOwners forgets an object that was removed. Its dependents are collected, and its
// owners may have waited for it.
func (c *collector) unlinkOwners(k *kind.Kind, m metav1.Object) (out []Task) {
	for _, d := range c.links.Forget(m.GetUID()) {
		out = append(out, Task{Verb: Collect, Kind: d.kind, Key: d.key})
	}
	d := dependent{k, kind.Key(m.GetNamespace(), m.GetName())}
	for _, ref := range m.GetOwnerReferences() {
		c.links.Remove(ref.UID, d)
		if owner, key, ok := c.ownerOf(m.GetNamespace(), ref); ok {
			out = append(out, Task{Verb: Release, Kind: owner, Key: key, UID: ref.UID})
		}
	}
	return out
}

// ownerOf returns the kind and the key of an owner; not ok where its kind is unknown.
func (c *collector) ownerOf(namespace string, ref metav1.OwnerReference) (k *kind.Kind, key string, ok bool) {
	if k = c.registry.Kinds().OfKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)); k == nil {
		return nil, "", false
	}
	if !k.Namespaced {
		namespace = ""
	}
	return k, kind.Key(namespace, ref.Name), true
}

// ownerExists reports whether an owner exists. An owner of an unknown kind replicas: nobody
// collects its dependents.
func (c *collector) ownerExists(namespace string, ref metav1.OwnerReference) bool {
	k, key, ok := c.ownerOf(namespace, ref)
	if !ok {
		return true
	}
	o := c.registry.Table(k).Get(key)
	return o != nil && k.Metadata(o.Raw).UID == ref.UID
}

// collectDependent deletes a dependent none of whose owners exists.
func (c *collector) collectDependent(d dependent, now time.Time) []Task {
	o := c.registry.Table(d.kind).Get(d.key)
	if o == nil {
		return nil
	}
	m := d.kind.Metadata(o.Raw)
	exists := func(ref metav1.OwnerReference) bool { return c.ownerExists(m.Namespace, ref) }
	if len(m.OwnerReferences) == 0 || slices.ContainsFunc(m.OwnerReferences, exists) {
		return nil
	}
	return c.deleteDependent(d, m.UID, metav1.DeletePropagationBackground, now)
}

func (c *collector) deleteDependent(d dependent, uid types.UID, policy metav1.DeletionPropagation, now time.Time) []Task {
	return c.registry.deleteAlways(d.kind, d.key, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid}}, now)
}

// releaseTasks returns what ends the wait of an object that is being deleted for its
// dependents: they lose their owner, or are deleted first.
func releaseTasks(k *kind.Kind, m metav1.Object) []Task {
	t := Task{Kind: k, UID: m.GetUID(), Key: kind.Key(m.GetNamespace(), m.GetName())}
	switch {
	case slices.Contains(m.GetFinalizers(), metav1.FinalizerOrphanDependents):
		t.Verb = Orphan
	case slices.Contains(m.GetFinalizers(), metav1.FinalizerDeleteDependents):
		t.Verb = DeleteDependents
	default:
		return nil
	}
	return []Task{t}
}

// releaseOwner looks again whether an owner that is being deleted waits for its dependents.
func (c *collector) releaseOwner(t Task) []Task {
	o := c.registry.Table(t.Kind).Get(t.Key)
	if o == nil {
		return nil
	}
	if m := t.Kind.Metadata(o.Raw); m.UID == t.UID && m.DeletionTimestamp != nil {
		return releaseTasks(t.Kind, &m)
	}
	return nil
}

// deleteDependents deletes the dependents of an object that is being deleted, and lets
// the object go when no dependent is left that blocks it.
func (c *collector) deleteDependents(t Task, now time.Time) (out []Task) {
	belongs := func(ref metav1.OwnerReference) bool { return ref.UID == t.UID }
	for _, d := range c.links.Dependents(t.UID) {
		o := c.registry.Table(d.kind).Get(d.key)
		if o == nil {
			continue
		}
		m := d.kind.Metadata(o.Raw)
		if m.DeletionTimestamp == nil && slices.ContainsFunc(m.OwnerReferences, belongs) { // an update may have removed the owner
			out = append(out, c.deleteDependent(d, m.UID, metav1.DeletePropagationForeground, now)...)
		}
	}
	for _, d := range c.links.Dependents(t.UID) {
		o := c.registry.Table(d.kind).Get(d.key)
		if o == nil {
			continue
		}
		for _, ref := range d.kind.Metadata(o.Raw).OwnerReferences {
			if ref.UID == t.UID && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
				return out
			}
		}
	}
	return append(out, c.registry.removeFinalizer(t.Kind, t.Key, metav1.FinalizerDeleteDependents, now)...)
}

// orphanDependents takes an object that is being deleted from its dependents, and lets it go.
func (c *collector) orphanDependents(t Task, now time.Time) (out []Task) {
	for _, d := range c.links.Dependents(t.UID) {
		out = append(out, c.removeOwner(d, t.UID, now)...)
	}
	return append(out, c.registry.removeFinalizer(t.Kind, t.Key, metav1.FinalizerOrphanDependents, now)...)
}

// removeOwner takes an owner from an object.
func (c *collector) removeOwner(d dependent, owner types.UID, now time.Time) []Task {
	return c.registry.changeAlways(Change{Write: Write{Target: targetOf(d.kind, d.key), Now: now}, Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject()
		m := kind.Meta(next)
		m.SetOwnerReferences(slices.DeleteFunc(m.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner }))
		return next, nil
	}})
}
