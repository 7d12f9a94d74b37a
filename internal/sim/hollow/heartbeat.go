package hollow

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// The namespace of nodes' leases, and how many times as long as their renewal takes
// they last.
const (
	leaseNamespace = "kube-node-lease"
	leaseLasts     = 4
)

// heartbeat is a node's lease that is renewed.
type heartbeat struct {
	timer wheel.Timer
	due   clock.Time
}

// node begins to renew the lease of a new node, and plays its stages.
func (e *engine) node(s subject, o *store.Object) {
	if e.models.Binder {
		e.nodesOf(s.cluster).see(s.key, o)
	}
	if o == nil {
		e.cancel(s)
		if b := e.beats[s]; b != nil {
			e.wheel.Stop(&b.timer)
			delete(e.beats, s)
		}
		return
	}
	e.nodeStage(s, o)
	if e.models.Binder {
		e.retry(s.cluster)
	}
	if e.models.Heartbeats <= 0 || e.beats[s] != nil {
		return
	}
	b := &heartbeat{}
	e.beats[s] = b
	b.timer.Fire = func() { e.beat(s, b) }
	// Nodes that are made at once do not renew at once.
	e.renew(s)
	b.due = e.now().Add(time.Duration(e.rng.Int64N(int64(e.models.Heartbeats))) + time.Millisecond)
	e.wheel.Set(&b.timer, b.due)
}

// beat renews a lease that is due, and plans the next time.
func (e *engine) beat(s subject, b *heartbeat) {
	e.renew(s)
	now := e.now()
	e.late.observe(now.Sub(b.due))
	if b.due = b.due.Add(e.models.Heartbeats); b.due < now { // it was late by more than a period
		b.due = now.Add(e.models.Heartbeats)
	}
	e.wheel.Set(&b.timer, b.due)
}

// renew writes a node's lease.
func (e *engine) renew(s subject) {
	leases := s.cluster.kinds.Load().Find("coordination.k8s.io", "v1", "leases")
	t := s.cluster.table(leases)
	current := t.Get(kind.Key(leaseNamespace, s.key))
	l := &coordinationv1.Lease{}
	if current != nil {
		if l.Unmarshal(current.Raw) != nil {
			return
		}
	} else if l = e.lease(s); l == nil {
		return
	}
	l.Spec.RenewTime = new(metav1.NewMicroTime(e.server.now()))
	key := kind.Key(leaseNamespace, s.key)
	// Someone else's write in between renewed it as well.
	_, _ = t.Put(key, current, encoder(leases, l))
}

// lease returns a node's first lease; nil where the node is gone, and its event still on
// the way: nobody would remove a lease without an owner.
func (e *engine) lease(s subject) *coordinationv1.Lease {
	o := s.table.Get(s.key)
	if o == nil {
		return nil
	}
	seconds := max(1, int32(leaseLasts*e.models.Heartbeats/time.Second))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.key, Namespace: leaseNamespace}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &s.key, &seconds
	s.cluster.begin(l)
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.key, UID: s.kind().Metadata(o.Raw).UID}}
	s.cluster.own(s.cluster.kinds.Load().Find("coordination.k8s.io", "v1", "leases"), l)
	return l
}
