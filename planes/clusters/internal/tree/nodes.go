package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// makeNode makes the virtual node of a leaf, unless it is there.
func (m *member) makeNode(ctx context.Context, l *leaf, v *view) error {
	if m.o.LeafReads == ReadsCached {
		if _, ok, _ := m.hub.nodes.GetIndexer().GetByKey(l.node); ok {
			return nil
		}
	} else if _, err := m.hub.client.Nodes.Get(ctx, "", l.node); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	_, err := m.hub.client.Nodes.Create(ctx, m.nodeOf(l, v))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make node %s: %w", l.node, err)
	}
	return nil
}

// keepLeases renews the leases of the member's leaves as long as the member answers.
func (m *member) keepLeases(ctx context.Context) {
	m.every(ctx, m.o.LeaseInterval, "leases", func() error {
		err := m.client.Version(ctx)
		m.answers.Store(err == nil)
		if err != nil {
			return fmt.Errorf("it does not answer: %w", err)
		}
		return m.eachLeaf(ctx, func(l *leaf) error { return m.renewLease(ctx, l) })
	})
}

// keepStatuses renews the statuses of the member's leaves.
func (m *member) keepStatuses(ctx context.Context) {
	m.every(ctx, m.o.StatusInterval, "statuses", func() error {
		if err := m.silent(ctx); err != nil {
			return err
		}
		v, err := m.lookOnce(ctx)
		if err != nil {
			return err
		}
		return m.eachLeaf(ctx, func(l *leaf) error { return m.renewStatus(ctx, l, v) })
	})
}

// silent returns why nothing is known of a member whose leaves show what is cached of it:
// a cache keeps the last that it was told, and the host has taken the nodes of a member
// that died for lost. Who reads the member for each status is told by that.
func (m *member) silent(ctx context.Context) error {
	if m.o.LeafReads != ReadsCached || m.answers.Load() {
		return nil
	}
	if err := m.client.Version(ctx); err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	m.answers.Store(true)
	return nil
}

// every does something now and after each interval; a pass that takes longer than that
// is followed by the next at once.
func (m *member) every(ctx context.Context, interval time.Duration, what string, do func() error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		done := m.timed(m.metrics.passes.WithLabelValues(what).Observe)
		if err := do(); err != nil && ctx.Err() == nil {
			m.metrics.failures.WithLabelValues(what).Inc()
			m.o.Log.Warn("not renewed, goes again", "member", m.name, "what", what, "error", err)
		} else {
			done()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewLease writes that a leaf is alive.
func (m *member) renewLease(ctx context.Context, l *leaf) error {
	m.mu.Lock()
	lease := m.leases[l.node]
	m.mu.Unlock()
	now, seconds := metav1.NewMicroTime(m.now()), int32(m.o.LeaseDuration.Seconds())
	var err error
	made := false
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node, Namespace: api.NamespaceLeases}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &l.node, LeaseDurationSeconds: &seconds, RenewTime: &now}
		lease, err = m.hub.client.Leases.Create(ctx, lease)
		made = err == nil
		if apierrors.IsAlreadyExists(err) { // of a manager before
			lease, err = m.hub.client.Leases.Get(ctx, api.NamespaceLeases, l.node)
		}
	}
	if err == nil && !made {
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, &seconds
		lease, err = m.hub.client.Leases.Update(ctx, lease)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.leases, l.node) // it is read again
		return fmt.Errorf("renew lease %s: %w", l.node, err)
	}
	lease.ManagedFields = nil
	m.leases[l.node] = lease
	return nil
}

// errNoOrdinary is Kosmos' condition for a leaf's status.
var errNoOrdinary = errors.New("the host has no ordinary node: leaves get no status")

// renewStatus writes what a leaf is. v is nil where each leaf looks for itself.
func (m *member) renewStatus(ctx context.Context, l *leaf, v *view) error {
	if m.o.NodePatch == Changed {
		return m.correctNode(ctx, l, v)
	}
	if _, err := m.hub.client.Nodes.Get(ctx, "", l.node); err != nil {
		return m.missingNode(ctx, l, v, err)
	}
	v, err := m.lookedFor(ctx, l, v)
	if err != nil {
		return err
	}
	n, err := m.hub.client.Nodes.Get(ctx, "", l.node)
	if err != nil {
		return fmt.Errorf("read node %s: %w", l.node, err)
	}
	var ordinary corev1.NodeList
	if err := m.hub.client.Nodes.List(ctx, "", &ordinary, metav1.ListOptions{LabelSelector: api.LabelNode + "!=true"}); err != nil {
		return fmt.Errorf("list ordinary nodes: %w", err)
	}
	if len(ordinary.Items) == 0 {
		return errNoOrdinary
	}
	want := m.nodeOf(l, v)
	n.Status = want.Status
	if _, err := m.hub.client.Nodes.Update(ctx, n, "status"); err != nil {
		return fmt.Errorf("write status of node %s: %w", l.node, err)
	}
	if l.mode != api.LeafNode {
		return nil
	}
	return m.patchNode(ctx, l.node, map[string]any{"spec": map[string]any{"taints": want.Spec.Taints}})
}

// lookedFor returns v, or looks for the leaf where it is nil.
func (m *member) lookedFor(ctx context.Context, l *leaf, v *view) (*view, error) {
	if v != nil {
		return v, nil
	}
	return m.lookFor(ctx, l)
}

// missingNode makes a node again that somebody deleted.
func (m *member) missingNode(ctx context.Context, l *leaf, v *view, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read node %s: %w", l.node, err)
	}
	if v, err = m.lookedFor(ctx, l, v); err != nil {
		return err
	}
	_, err = m.hub.client.Nodes.Create(ctx, m.nodeOf(l, v))
	return err
}

// correctNode writes of a node what is not as it should be.
func (m *member) correctNode(ctx context.Context, l *leaf, v *view) error {
	v, err := m.lookedFor(ctx, l, v)
	if err != nil {
		return err
	}
	o, ok, _ := m.hub.nodes.GetIndexer().GetByKey(l.node)
	var now *versions
	if nodes := v.of(l); ok && l.mode == api.LeafNode && len(nodes) == 1 {
		now = &versions{o.(*hubNode).ResourceVersion, nodes[0].ResourceVersion}
		if was := l.agreed.Load(); was != nil && *was == *now {
			return nil // to write out again what both are would be most of what a large tree does
		}
	}
	want := m.nodeOf(l, v)
	if ok && o.(*hubNode).sum == nodeSum(want) {
		l.agreed.Store(now)
		return nil
	}
	n, err := m.hub.client.Nodes.Get(ctx, "", l.node)
	if err != nil {
		return m.missingNode(ctx, l, v, err)
	}
	if nodeSum(n) == nodeSum(want) { // the cache is behind
		return nil
	}
	for _, t := range n.Spec.Taints {
		if isState(&t) {
			want.Spec.Taints = append(want.Spec.Taints, t)
		}
	}
	if err := m.patchNode(ctx, l.node, map[string]any{"spec": map[string]any{"taints": want.Spec.Taints}}); err != nil {
		return err
	}
	return m.patchNode(ctx, l.node, map[string]any{"status": want.Status}, "status")
}

func (m *member) patchNode(ctx context.Context, node string, patch map[string]any, part ...string) error {
	body, err := json.Marshal(patch)
	if err == nil {
		err = m.hub.client.Nodes.Patch(ctx, node, body, part...)
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node, err)
	}
	return nil
}

// renewOne corrects a leaf of a member whose leaves show what their node says, by that
// node alone: a view of all would be made at each event of each of them. Without a leaf
// it was the event of a pod.
func (m *member) renewOne(ctx context.Context, l *leaf) error {
	if l == nil {
		return nil
	}
	var nodes []*memberNode
	if o, ok, _ := m.nodes.GetIndexer().GetByKey(l.model.NodeSelector.NodeName); ok {
		nodes = append(nodes, o.(*memberNode))
	}
	return m.correctNode(ctx, l, newView(nodes))
}

// renewResources follows what pods take and nodes have: with Kosmos' semantics each
// event of a pod or node patches every leaf of the member, mostly with nothing.
func (m *member) renewResources(ctx context.Context, key string) error {
	if m.o.NodePatch == Changed && m.o.LeafReads == ReadsCached && len(m.byNode) == len(m.leaves) {
		return m.renewOne(ctx, m.byNode[key])
	}
	v, err := m.lookOnce(ctx)
	if err != nil {
		return err
	}
	if m.o.NodePatch == Changed {
		if l := m.byNode[key]; l != nil {
			return m.correctNode(ctx, l, v)
		}
		if len(m.byNode) == len(m.leaves) {
			return nil // a pod of a member whose leaves show what their node says
		}
		return m.eachLeaf(ctx, func(l *leaf) error { return m.correctNode(ctx, l, v) })
	}
	for _, l := range m.leaves {
		mine, err := m.lookedFor(ctx, l, v)
		if err != nil {
			return err
		}
		want := m.nodeOf(l, mine)
		if err := m.patchNode(ctx, l.node, map[string]any{}); err != nil {
			return err
		}
		status := map[string]any{"status": map[string]any{"capacity": want.Status.Capacity, "allocatable": want.Status.Allocatable}}
		if err := m.patchNode(ctx, l.node, status, "status"); err != nil {
			return err
		}
	}
	return nil
}
