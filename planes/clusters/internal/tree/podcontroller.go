package tree

import (
	"context"
	"sync"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
)

// podController creates a member's pods for those of the hub that are bound to its
// leaves, and writes their statuses to the hub.
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
	c.up = t.loop("status", t.o.StatusWorkers, c.report)
	if c.own {
		c.down = t.loop("pods", t.o.PodWorkers, func(ctx context.Context, key string) error { return t.reconcileDown(ctx, c, key) })
	}
	return c
}

// loops are the member's own.
func (c *podController) loops() []*loop.Loop {
	if c.own {
		return []*loop.Loop{c.up, c.down}
	}
	return []*loop.Loop{c.up}
}

// hubPodSeen puts a pod of the hub into the queue of those that work on it, if it is
// bound to a leaf.
func (t *tree) hubPodSeen(o any) {
	p, ok := loop.Last[*hubPod](o)
	if !ok {
		return
	}
	if l := t.leafOf(p); l != nil {
		key, _ := loop.Key(p)
		l.joined.pods.hubSeen(key, p)
	}
}

// hubSeen handles a pod of the hub that was made, has changed or is gone. A status that
// somebody else has changed is written again.
func (c *podController) hubSeen(key string, hub *hubPod) {
	c.down.Queue.Add(key)
	if p := c.member.pod(key); p != nil && p.own && hub.sum != p.sum {
		c.up.Queue.Add(key)
	}
}

// seen handles a pod of the member that was made, where old is nil, or has changed.
func (c *podController) seen(key string, old, p *memberPod) {
	if p.own && (old == nil || old.UID != p.UID || old.sum != p.sum) {
		c.up.Queue.Add(key)
	}
}

// gone handles a pod of the member that is there no more.
func (c *podController) gone(key string, p *memberPod) {
	if p.own {
		c.mu.Lock()
		c.finishedUIDs[key] = p.hubUID
		c.mu.Unlock()
		c.up.Queue.Add(key)
	} else if hub := c.tree.hub.pod(key); c.tree.o.StatusGuard == GuardUID && hub != nil && c.leafOf(hub) != nil {
		c.down.Queue.Add(key) // it had the name that one of the tree waits for
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
