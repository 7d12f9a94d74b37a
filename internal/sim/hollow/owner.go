package hollow

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// owners is which objects belong to which others.
type owners struct {
	mu    sync.Mutex
	owned map[types.UID]map[dependent]struct{}
}

// dependent is an object that belongs to another one.
type dependent struct {
	kind *kind.Kind
	key  string
}

// own notes to whom an object belongs. One whose owner is not there goes.
func (c *Cluster) own(k *kind.Kind, m metav1.Object) {
	refs := m.GetOwnerReferences()
	if len(refs) == 0 {
		return
	}
	d := dependent{k, kind.Key(m.GetNamespace(), m.GetName())}
	fresh := false
	c.owners.mu.Lock()
	for _, r := range refs {
		set := c.owners.owned[r.UID]
		if set == nil {
			set = map[dependent]struct{}{}
			if c.owners.owned == nil {
				c.owners.owned = map[types.UID]map[dependent]struct{}{}
			}
			c.owners.owned[r.UID] = set
		}
		if _, known := set[d]; !known {
			set[d], fresh = struct{}{}, true
		}
	}
	c.owners.mu.Unlock()
	if fresh && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return c.owner(m.GetNamespace(), r) }) {
		c.later(func() { c.collect(d, metav1.DeletePropagationBackground) })
	}
}

// owner says whether an owner is there.
func (c *Cluster) owner(namespace string, r metav1.OwnerReference) bool {
	k := c.kinds.Load().OfKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if k == nil {
		return true // of a kind that nothing is known of: nobody removes what it has
	}
	if !k.Namespaced {
		namespace = ""
	}
	o := c.table(k).Get(kind.Key(namespace, r.Name))
	return o != nil && k.Metadata(o.Raw).UID == r.UID
}

// dependents returns what belongs to an owner.
func (c *Cluster) dependents(owner types.UID) (out []dependent) {
	c.owners.mu.Lock()
	defer c.owners.mu.Unlock()
	for d := range c.owners.owned[owner] {
		out = append(out, d)
	}
	return out
}

// disown forgets an object that was removed: what belonged to it goes, and its own
// owners may have waited for it.
func (c *Cluster) disown(k *kind.Kind, m metav1.Object) {
	for _, d := range c.dependents(m.GetUID()) {
		c.later(func() { c.collect(d, metav1.DeletePropagationBackground) })
	}
	c.owners.mu.Lock()
	defer c.owners.mu.Unlock()
	delete(c.owners.owned, m.GetUID())
	for _, r := range m.GetOwnerReferences() {
		set := c.owners.owned[r.UID]
		delete(set, dependent{k, kind.Key(m.GetNamespace(), m.GetName())})
		if len(set) == 0 {
			delete(c.owners.owned, r.UID)
		}
		namespace := m.GetNamespace()
		c.later(func() { c.releaseOwner(namespace, r) })
	}
}

// collect deletes an object none of whose owners is there.
func (c *Cluster) collect(d dependent, policy metav1.DeletionPropagation) {
	o := c.table(d.kind).Get(d.key)
	if o == nil {
		return
	}
	m := d.kind.Metadata(o.Raw)
	here := func(r metav1.OwnerReference) bool { return c.owner(m.Namespace, r) }
	if len(m.OwnerReferences) == 0 || policy == metav1.DeletePropagationBackground && slices.ContainsFunc(m.OwnerReferences, here) {
		return
	}
	c.drop(d.kind, d.key, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &m.UID}})
}

// release ends the wait of an object that is being deleted for what belongs to it:
// that goes first, or stays without an owner.
func (c *Cluster) release(k *kind.Kind, m metav1.Object) {
	uid, key := m.GetUID(), kind.Key(m.GetNamespace(), m.GetName())
	switch {
	case slices.Contains(m.GetFinalizers(), metav1.FinalizerOrphanDependents):
		c.later(func() {
			for _, d := range c.dependents(uid) {
				c.orphan(d, uid)
			}
			c.unfinalize(k, key, metav1.FinalizerOrphanDependents)
		})
	case slices.Contains(m.GetFinalizers(), metav1.FinalizerDeleteDependents):
		c.later(func() { c.foreground(k, key, uid) })
	}
}

// foreground deletes what belongs to an object, and lets the object go when nothing
// of it is left that blocks it.
func (c *Cluster) foreground(k *kind.Kind, key string, uid types.UID) {
	for _, d := range c.dependents(uid) {
		if o := c.table(d.kind).Get(d.key); o != nil && d.kind.Metadata(o.Raw).DeletionTimestamp == nil {
			c.collect(d, metav1.DeletePropagationForeground)
		}
	}
	for _, d := range c.dependents(uid) {
		o := c.table(d.kind).Get(d.key)
		if o == nil {
			continue
		}
		for _, r := range d.kind.Metadata(o.Raw).OwnerReferences {
			if r.UID == uid && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion {
				return
			}
		}
	}
	c.unfinalize(k, key, metav1.FinalizerDeleteDependents)
}

// releaseOwner looks again whether an owner waits for something.
func (c *Cluster) releaseOwner(namespace string, r metav1.OwnerReference) {
	k := c.kinds.Load().OfKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if k == nil {
		return
	}
	if !k.Namespaced {
		namespace = ""
	}
	o := c.table(k).Get(kind.Key(namespace, r.Name))
	if o == nil {
		return
	}
	if m := k.Metadata(o.Raw); m.UID == r.UID && m.DeletionTimestamp != nil {
		c.release(k, &m)
	}
}

// orphan takes an owner from an object.
func (c *Cluster) orphan(d dependent, owner types.UID) {
	t := target{kind: d.kind}
	t.namespace, t.name = kind.SplitKey(d.key)
	_, _ = c.change(change{write: write{target: t}, of: func(old runtime.Object) (runtime.Object, error) {
		next := old.DeepCopyObject()
		m := kind.Meta(next)
		m.SetOwnerReferences(slices.DeleteFunc(m.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner }))
		return next, nil
	}}) // it may have gone
}
