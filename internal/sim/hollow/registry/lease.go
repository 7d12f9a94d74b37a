package registry

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// RenewLease writes the lease of a node, as its kubelet does. A new lease belongs to its
// node and lasts so many seconds.
func (r *Registry) RenewLease(node string, seconds int32, now time.Time) []Task {
	leases := r.Kinds().Find("coordination.k8s.io", "v1", "leases")
	t, key := r.Table(leases), kind.Key(corev1.NamespaceNodeLease, node)
	current := t.Get(key)
	l := &coordinationv1.Lease{}
	var out []Task
	if current != nil {
		if l.Unmarshal(current.Raw) != nil {
			return nil
		}
	} else if l = r.newLease(node, seconds, now); l == nil {
		return nil
	} else {
		out = r.owners.linkOwners(leases, l)
	}
	l.Spec.RenewTime = new(metav1.NewMicroTime(now))
	_, _ = t.Put(key, current, Encoder(leases, l)) // a write that came between renewed the lease as well
	return out
}

// newLease returns the first lease of a node; nil where the node has gone: nobody would
// remove a lease without an owner.
func (r *Registry) newLease(node string, seconds int32, now time.Time) *coordinationv1.Lease {
	nodes := r.Kinds().Find("", "v1", "nodes")
	o := r.Table(nodes).Get(node)
	if o == nil {
		return nil
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &node, &seconds
	r.initMetadata(l, now)
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: nodes.Metadata(o.Raw).UID}}
	return l
}
