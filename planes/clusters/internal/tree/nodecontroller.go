package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// nodeController keeps a member's virtual nodes on the hub: their leases and statuses,
// and what their nodes have and pods take.
type nodeController struct {
	tree    *tree
	member  *member
	queue   *loop.Loop
	answers atomic.Bool // to the last question for its version

	mu     sync.Mutex
	leases map[string]*coordinationv1.Lease // as the hub answered last, by leaf
}

func newNodeController(t *tree, m *member) *nodeController {
	c := &nodeController{tree: t, member: m, leases: map[string]*coordinationv1.Lease{}}
	c.queue = t.newLoop("resources", 1, c.renewResources)
	return c
}

// addHandlers connects the member's cache of nodes with the queue.
func (c *nodeController) addHandlers() error {
	return loop.Watch(c.member.nodes, func(old, now *memberNode) {
		if c.tree.o.NodePatch != Always || old == nil || now == nil || changesResources(old, now) {
			c.queue.Queue.Add(cmp.Or(now, old).Name)
		}
	})
}

// podChanged lets the leaves' resources be looked at again.
func (c *nodeController) podChanged(p *memberPod) {
	if key := resourcesKey(p, &c.tree.o); key != "" {
		c.queue.Queue.Add(key)
	}
}

// makeNodes makes the virtual nodes of a member that has answered.
func (c *nodeController) makeNodes(ctx context.Context) error {
	c.answers.Store(true)
	v, err := c.listNodes(ctx, cachedNodes())
	if err != nil {
		return err
	}
	return c.eachLeaf(ctx, func(l *leaf) error { return c.makeNode(ctx, l, v) })
}

// makeNode makes the virtual node of a leaf, unless it is there.
func (c *nodeController) makeNode(ctx context.Context, l *leaf, v *view) error {
	if c.tree.o.LeafReads == ReadsCached {
		if slim.Has(c.tree.hub.nodes, l.node) {
			return nil
		}
	} else if _, err := c.tree.hub.client.Nodes.Get(ctx, "", l.node); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	_, err := c.tree.hub.client.Nodes.Create(ctx, c.desiredLeaf(l, v))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make node %s: %w", l.node, err)
	}
	return nil
}

// renewLeases renews the leases of the member's leaves as long as the member answers.
func (c *nodeController) renewLeases(ctx context.Context) {
	c.runPeriodically(ctx, c.tree.o.LeaseInterval, "leases", func() error { return c.passLeases(ctx) })
}

func (c *nodeController) passLeases(ctx context.Context) error {
	err := c.member.client.Version(ctx)
	c.answers.Store(err == nil)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return c.eachLeaf(ctx, func(l *leaf) error { return c.renewLease(ctx, l) })
}

// renewStatuses renews the statuses of the member's leaves.
func (c *nodeController) renewStatuses(ctx context.Context) {
	c.runPeriodically(ctx, c.tree.o.StatusInterval, "statuses", func() error { return c.passStatuses(ctx) })
}

func (c *nodeController) passStatuses(ctx context.Context) error {
	if err := c.checkAnswers(ctx); err != nil {
		return err
	}
	v, err := c.viewForAll(ctx)
	if err != nil {
		return err
	}
	return c.eachLeaf(ctx, func(l *leaf) error { return c.renewStatus(ctx, l, v) })
}

// checkAnswers returns why nothing is known of a member whose leaves show what is cached of it:
// a cache keeps the last that it was told, and the hub has taken the nodes of a member
// that died for lost. Who reads the member for each status is told by that.
func (c *nodeController) checkAnswers(ctx context.Context) error {
	if c.tree.o.LeafReads != ReadsCached || c.answers.Load() {
		return nil
	}
	if err := c.member.client.Version(ctx); err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	c.answers.Store(true)
	return nil
}

// runPeriodically does something now and after each interval, from the end of a pass or from
// its begin; in the latter case, a pass that takes longer is followed by the next at once.
func (c *nodeController) runPeriodically(ctx context.Context, interval time.Duration, what string, do func() error) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		done := c.tree.startTimer(c.tree.metrics.passes.WithLabelValues(what).Observe)
		if err := do(); err != nil && ctx.Err() == nil {
			c.tree.metrics.failures.WithLabelValues(what).Inc()
			c.tree.o.Log.Warn("not renewed, goes again", "member", c.member.name, "what", what, "error", err)
		} else {
			done()
		}
		if c.tree.o.Renewals == RenewalsFromEnd {
			tick.Reset(interval)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// renewLease writes that a leaf is alive.
func (c *nodeController) renewLease(ctx context.Context, l *leaf) error {
	c.mu.Lock()
	lease := c.leases[l.node]
	c.mu.Unlock()
	now, seconds := metav1.NewMicroTime(c.tree.o.Now()), int32(c.tree.o.LeaseDuration.Seconds())
	var err error
	made := false
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node, Namespace: api.NamespaceLeases}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &l.node, LeaseDurationSeconds: &seconds, RenewTime: &now}
		lease, err = c.tree.hub.client.Leases.Create(ctx, lease)
		made = err == nil && c.tree.o.Renewals == RenewalsFromBegin
		if apierrors.IsAlreadyExists(err) { // of a manager before
			lease, err = c.tree.hub.client.Leases.Get(ctx, api.NamespaceLeases, l.node)
		}
	}
	if err == nil && !made {
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, &seconds
		lease, err = c.tree.hub.client.Leases.Update(ctx, lease)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		delete(c.leases, l.node) // it is read again
		return fmt.Errorf("renew lease %s: %w", l.node, err)
	}
	lease.ManagedFields = nil
	c.leases[l.node] = lease
	return nil
}

// errNoOrdinary is Kosmos' condition for a leaf's status.
var errNoOrdinary = errors.New("the host has no ordinary node: leaves get no status")

// renewStatus writes what a leaf is. v is nil where each leaf looks for itself.
func (c *nodeController) renewStatus(ctx context.Context, l *leaf, v *view) error {
	if c.tree.o.NodePatch == Changed {
		return c.correctNode(ctx, l, v)
	}
	n, err := c.readNode(ctx, l)
	if err != nil {
		return err
	}
	if v, err = c.viewFor(ctx, l, v, false); err != nil {
		return err
	}
	if c.tree.o.NodeReads > 1 && l.mode != api.LeafNode {
		if n, err = c.readNode(ctx, l); err != nil {
			return err
		}
	}
	var ordinary corev1.NodeList
	if err := c.tree.hub.client.Nodes.List(ctx, "", &ordinary, metav1.ListOptions{LabelSelector: api.LabelNode + "!=true"}); err != nil {
		return fmt.Errorf("list ordinary nodes: %w", err)
	}
	if len(ordinary.Items) == 0 {
		return errNoOrdinary
	}
	want := c.desiredLeaf(l, v)
	n.Status = want.Status
	if _, err := c.tree.hub.client.Nodes.Update(ctx, n, "status"); err != nil {
		return fmt.Errorf("write status of node %s: %w", l.node, err)
	}
	if l.mode != api.LeafNode {
		return nil
	}
	return c.patchNode(ctx, l.node, map[string]any{"spec": map[string]any{"taints": want.Spec.Taints}})
}

// readNode reads the virtual node of a leaf.
func (c *nodeController) readNode(ctx context.Context, l *leaf) (*corev1.Node, error) {
	n, err := c.tree.hub.client.Nodes.Get(ctx, "", l.node)
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", l.node, err)
	}
	return n, nil
}

// viewFor returns v, or looks for the leaf where it is nil.
func (c *nodeController) viewFor(ctx context.Context, l *leaf, v *view, resources bool) (*view, error) {
	if v != nil {
		return v, nil
	}
	return c.listForLeaf(ctx, l, resources)
}

// correctNode writes of a node what is not as it should be.
func (c *nodeController) correctNode(ctx context.Context, l *leaf, v *view) error {
	v, err := c.viewFor(ctx, l, v, true)
	if err != nil {
		return err
	}
	hub := slim.Get[*hubNode](c.tree.hub.nodes, l.node)
	now := l.versionsOf(hub, v)
	if l.hasAgreed(now) {
		return nil
	}
	want := c.desiredLeaf(l, v)
	if decideNode(hub, want) == nodeKeep {
		l.agreed.Store(now)
		return nil
	}
	n, err := c.tree.hub.client.Nodes.Get(ctx, "", l.node)
	if apierrors.IsNotFound(err) {
		n, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", l.node, err)
	}
	switch decideReadNode(n, want) {
	case nodeCreate:
		_, err = c.tree.hub.client.Nodes.Create(ctx, want)
		return err
	case nodePatch:
		return c.patchTaintsAndStatus(ctx, keepStates(n, want.Spec.Taints), want)
	}
	return nil
}

func (c *nodeController) patchTaintsAndStatus(ctx context.Context, taints []corev1.Taint, want *corev1.Node) error {
	if err := c.patchNode(ctx, want.Name, map[string]any{"spec": map[string]any{"taints": taints}}); err != nil {
		return err
	}
	return c.patchNode(ctx, want.Name, map[string]any{"status": want.Status}, "status")
}

// desiredLeaf returns a leaf as the hub is to have it.
func (c *nodeController) desiredLeaf(l *leaf, v *view) *corev1.Node {
	return desiredNode(c.member.name, l, v, c.tree.o.Now())
}

func (c *nodeController) patchNode(ctx context.Context, node string, patch map[string]any, part ...string) error {
	body, err := json.Marshal(patch)
	if err == nil {
		err = c.tree.hub.client.Nodes.Patch(ctx, node, body, part...)
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node, err)
	}
	return nil
}

// renewOne corrects a leaf of a member whose leaves show what their node says, by that
// node alone: a view of all would be made at each event of each of them.
func (c *nodeController) renewOne(ctx context.Context, l *leaf) error {
	if l == nil {
		return nil
	}
	var nodes []*memberNode
	if n := slim.Get[*memberNode](c.member.nodes, l.model.NodeSelector.NodeName); n != nil {
		nodes = append(nodes, n)
	}
	return c.correctNode(ctx, l, newView(nodes))
}

// renewResources follows what pods take and nodes have; the key is the member's node. With
// Kosmos' semantics a pass patches every leaf of the member, mostly with nothing.
func (c *nodeController) renewResources(ctx context.Context, key string) error {
	if c.tree.o.NodePatch == Changed && c.tree.o.LeafReads == ReadsCached && c.member.standsForNodes() {
		return c.renewOne(ctx, c.member.byNode[key])
	}
	v, err := c.viewForAll(ctx)
	if err != nil {
		return err
	}
	if c.tree.o.NodePatch == Changed {
		if l := c.member.byNode[key]; l != nil {
			return c.correctNode(ctx, l, v)
		}
		if c.member.standsForNodes() {
			return nil // of a node without a leaf
		}
		return c.eachLeaf(ctx, func(l *leaf) error { return c.correctNode(ctx, l, v) })
	}
	return c.patchResources(ctx, v)
}

// patchResources patches every leaf of the member, whether it differs or not. v is nil
// where each leaf looks for itself.
func (c *nodeController) patchResources(ctx context.Context, v *view) error {
	for _, l := range c.member.leaves {
		mine, err := c.viewFor(ctx, l, v, true)
		if err != nil {
			return err
		}
		want := c.desiredLeaf(l, mine)
		if err := c.patchNode(ctx, l.node, map[string]any{}); err != nil {
			return err
		}
		status := map[string]any{"status": map[string]any{"capacity": want.Status.Capacity, "allocatable": want.Status.Allocatable}}
		if err := c.patchNode(ctx, l.node, status, "status"); err != nil {
			return err
		}
	}
	return nil
}

// eachLeaf does something for all leaves of the member, by so many workers as the
// options say; the first error ends it.
func (c *nodeController) eachLeaf(ctx context.Context, do func(*leaf) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *leaf)
	var wait sync.WaitGroup
	for range min(c.tree.o.NodeWorkers, len(c.member.leaves)) {
		wait.Go(func() {
			for l := range queue {
				if err := do(l); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, l := range c.member.leaves {
		select {
		case queue <- l:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	return context.Cause(ctx)
}
