package tree

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// podController creates a member's pods for those of the hub that are bound to its
// leaves, and writes their statuses to the hub: it does what podPair decides.
type podController struct {
	tree    *tree
	member  *member
	creator *podCreator
	down    *loop.Loop // of the hub's changes; that of all members, or the member's own
	own     bool
	up      *loop.Loop // of the member's changes

	mu           sync.Mutex
	finishedUIDs map[string]string // uid of the hub's pod that a member's pod was of that is gone, by key
}

func newPodController(t *tree, m *member, n *namespaces, down *loop.Loop) *podController {
	c := &podController{tree: t, member: m, creator: newPodCreator(t, m, n), down: down, own: down == nil, finishedUIDs: map[string]string{}}
	c.up = t.newLoop("status", t.o.StatusWorkers, c.reportStatus)
	if c.own {
		c.down = t.newLoop("pods", t.o.PodWorkers, func(ctx context.Context, key string) error { return t.reconcileDown(ctx, c, key) })
	}
	return c
}

// ownLoops are the member's own.
func (c *podController) ownLoops() []*loop.Loop {
	if c.own {
		return []*loop.Loop{c.up, c.down}
	}
	return []*loop.Loop{c.up}
}

// hubPodSeen handles a pod of the hub that was made, has changed or is gone: one that is
// bound to a leaf or, as Kosmos does, any.
func (t *tree) hubPodSeen(p *hubPod) {
	key := loop.Key(p)
	if l := t.leafOf(p); l != nil {
		c := l.joined.pods
		c.enqueue(key, afterHub(p, c.member.podByKey(key)))
	} else if t.pods != nil {
		t.pods.Queue.Add(key)
	}
}

// unboundAgain is when Kosmos looks again whether a pod is bound. A pod whose creation takes
// longer and fails waits in the queue by then, and so has no pause.
const unboundAgain = 10 * time.Second

// onMemberPod handles a pod of the member that was made, where old is nil, or has changed.
func (c *podController) onMemberPod(key string, old, p *memberPod) {
	c.enqueue(key, afterMember(old, p))
}

// onMemberPodGone handles a pod of the member that is there no more.
func (c *podController) onMemberPodGone(key string, p *memberPod) {
	if p.own {
		c.mu.Lock()
		c.finishedUIDs[key] = p.hubUID
		c.mu.Unlock()
	}
	hub := c.tree.hub.podByKey(key)
	c.enqueue(key, afterMemberGone(p, hub != nil && c.leafOf(hub) != nil, &c.tree.o))
}

func (c *podController) enqueue(key string, q podQueues) {
	if q.down {
		c.down.Queue.Add(key)
	}
	if q.up {
		c.up.Queue.Add(key)
	}
}

// leafOf returns the leaf of this member that a pod of the hub is bound to, nil if there
// is none.
func (c *podController) leafOf(hub *hubPod) *leaf {
	if l := c.tree.leafOf(hub); l != nil && l.joined.member == c.member {
		return l
	}
	return nil
}

// podPairOf returns what is known of a pod whose pod of the hub, and leaf, are given.
func (c *podController) podPairOf(key string, hub *hubPod, l *leaf) podPair {
	p := podPair{hub: hub, member: c.member.podByKey(key), leaf: l}
	c.mu.Lock()
	defer c.mu.Unlock()
	if of, ok := c.finishedUIDs[key]; ok {
		p.finished = &of
	}
	return p
}

// reconcileDown brings a pod of the hub down to its member, or away from there. from is
// whose queue the key comes from, nil for that of all.
func (t *tree) reconcileDown(ctx context.Context, from *podController, key string) error {
	hub := t.hub.podByKey(key)
	if hub == nil {
		return t.sweepMembers(ctx, from, key)
	}
	if hub.node == "" {
		if t.pods != nil && hub.DeletionTimestamp == nil {
			t.pods.Queue.AddAfter(key, unboundAgain)
		}
		return nil
	}
	l := t.leaves.findLeaf(hub.node)
	if l == nil {
		return nil
	}
	c := l.joined.pods
	p := c.podPairOf(key, hub, l)
	return c.doAction(ctx, key, p, p.decideDown(&t.o))
}

// sweepMembers deletes the member's pod of a pod that the hub has no more: as Kosmos does it,
// by asking for every leaf of every member, whose member is looked for each time.
func (t *tree) sweepMembers(ctx context.Context, from *podController, key string) error {
	switch {
	case from != nil:
		return from.hubGone(ctx, key)
	case t.o.NodeLookup == LookupMap:
		for _, j := range t.leaves.everyMember() {
			if err := j.pods.hubGone(ctx, key); err != nil {
				return err
			}
		}
		return nil
	}
	for _, one := range t.leaves.listLeaves() {
		l := t.leaves.findLeaf(one.node)
		if l == nil {
			continue // its member has left meanwhile
		}
		if err := l.joined.pods.hubGone(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// hubGone does what follows when the hub has no pod of a key.
func (c *podController) hubGone(ctx context.Context, key string) error {
	p := c.podPairOf(key, nil, nil)
	return c.doAction(ctx, key, p, p.decideDown(&c.tree.o))
}

// reportStatus writes to the hub how a member's pod is, or takes the hub's pod away when that
// of the member is gone.
func (c *podController) reportStatus(ctx context.Context, key string) error {
	hub := c.tree.hub.podByKey(key)
	var l *leaf
	if hub != nil {
		l = c.leafOf(hub)
	}
	p := c.podPairOf(key, hub, l)
	action := p.decideUp(&c.tree.o)
	c.countUp(p, action)
	if err := c.doAction(ctx, key, p, action); err != nil {
		return err
	}
	if p.hasFinished(&c.tree.o) {
		c.forgetFinished(key, *p.finished)
	}
	return nil
}

// countUp counts writes on the pod of another uid, and statuses that need not be written.
func (c *podController) countUp(p podPair, action podAction) {
	switch {
	case action == podDeleteOnHub && p.finishedOther():
		c.tree.metrics.unguarded.WithLabelValues("DELETE").Inc()
	case action == podWriteStatus && !p.member.isOf(p.hub.UID):
		c.tree.metrics.unguarded.WithLabelValues("PUT").Inc()
	case action == podKeepStatus || action == podDelete:
		c.tree.metrics.statuses.WithLabelValues("unchanged").Inc()
	}
}

// forgetFinished forgets that the member's pod of a pod of the hub is gone, unless it was another.
func (c *podController) forgetFinished(key, of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finishedUIDs[key] == of {
		delete(c.finishedUIDs, key)
	}
}

// doAction does what was decided for a pod.
func (c *podController) doAction(ctx context.Context, key string, p podPair, action podAction) error {
	switch action {
	case podCreate:
		return c.creator.createPod(ctx, p.leaf, p.hub)
	case podDelete:
		return c.deletePod(ctx, p.member)
	case podDeleteOrphan:
		return c.deleteOrphan(ctx, p)
	case podDeleteOnHub:
		return c.deleteOnHub(ctx, p.hub)
	case podWriteStatus:
		return c.writeStatus(ctx, key, p)
	case podRequeueDown:
		c.down.Queue.Add(key)
	}
	return nil
}

// deletePod deletes a pod of the tree in the member.
func (c *podController) deletePod(ctx context.Context, p *memberPod) error {
	o := metav1.DeleteOptions{}
	if c.tree.o.StatusGuard == GuardUID {
		o.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	}
	err := c.member.client.Pods.Delete(ctx, p.Namespace, p.Name, o)
	if apierrors.IsNotFound(err) || c.tree.o.StatusGuard == GuardUID && apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete pod %s/%s in member %s: %w", p.Namespace, p.Name, c.member.name, err)
	}
	return nil
}

// deleteOrphan deletes a member's pod that the hub does not know any more: the cache may
// be behind, so the hub is asked.
func (c *podController) deleteOrphan(ctx context.Context, p podPair) error {
	hub, err := c.tree.hub.client.Pods.Get(ctx, p.member.Namespace, p.member.Name)
	if err == nil && p.member.isOf(hub.UID) || err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if p.deleteCopy() == podNothing {
		return nil
	}
	return c.deletePod(ctx, p.member)
}

// deleteOnHub takes a pod of the hub away at once.
func (c *podController) deleteOnHub(ctx context.Context, p *hubPod) error {
	now := int64(0)
	o := metav1.DeleteOptions{GracePeriodSeconds: &now}
	if c.tree.o.StatusGuard == GuardUID {
		o.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	}
	err := c.tree.hub.client.Pods.Delete(ctx, p.Namespace, p.Name, o)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s on the host: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// writeStatus writes the status of the member's pod on the hub. It is unconditional, as
// version 0 is: only the uid says which pod is meant.
func (c *podController) writeStatus(ctx context.Context, key string, p podPair) error {
	body := &corev1.Pod{ObjectMeta: p.hub.objectMeta()}
	if err := body.Status.Unmarshal(p.member.status); err != nil {
		return fmt.Errorf("status of pod %s in member %s: %w", key, c.member.name, err)
	}
	body.ResourceVersion, body.UID = "0", ""
	if c.tree.o.StatusGuard == GuardUID {
		body.UID = types.UID(p.member.hubUID)
	}
	metav1.SetMetaDataLabel(&body.ObjectMeta, api.LabelPod, "true")
	_, err := c.tree.hub.client.Pods.Update(ctx, body, "status")
	switch {
	case err == nil:
		c.tree.metrics.statuses.WithLabelValues("written").Inc()
		return nil
	case apierrors.IsNotFound(err), c.tree.o.StatusGuard == GuardUID && apierrors.IsConflict(err):
		return nil // it is gone, or another: the event is on its way
	}
	return fmt.Errorf("write status of pod %s: %w", key, err)
}
