package tree

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// join brings a member nearer to what its Cluster says: joined, joined anew, or gone.
func (t *Tree) join(ctx context.Context, name string) error {
	o, ok, _ := t.hub.clusters.GetIndexer().GetByKey(name)
	if !ok {
		t.stopMember(name)
		return nil
	}
	c := o.(*api.Cluster)
	switch {
	case c.Annotations[api.AnnotationRole] == api.RoleRoot:
		return nil
	case c.DeletionTimestamp != nil || c.Spec.Tree == nil || !c.Spec.Tree.Enable:
		return t.leave(ctx, c)
	case !slices.Contains(c.Finalizers, api.FinalizerCluster):
		next := c.DeepCopyObject().(*api.Cluster)
		next.Finalizers = append(next.Finalizers, api.FinalizerCluster)
		if _, err := t.hub.client.Clusters.Update(ctx, next); err != nil {
			return fmt.Errorf("cluster %s: put the finalizer: %w", name, err)
		}
	}
	made := fmt.Sprint(c.UID, c.Generation)
	if m := t.leaves.member(name); m != nil && m.made == made {
		return nil
	}
	defer t.timed(t.metrics.joined.WithLabelValues().Observe)()
	t.stopMember(name)
	m, err := t.newMember(c, made)
	if err != nil {
		return err
	}
	return t.begin(ctx, m)
}

// begin asks a member who it is, makes its nodes, and starts what works for it.
func (t *Tree) begin(ctx context.Context, m *member) error {
	if err := m.client.Discover(ctx); err != nil {
		return fmt.Errorf("cluster %s: discover: %w", m.name, err)
	}
	if err := m.client.Version(ctx); err != nil {
		return fmt.Errorf("cluster %s: version: %w", m.name, err)
	}
	m.answers.Store(true)
	v, err := m.look(ctx)
	if err != nil {
		return err
	}
	if err := m.eachLeaf(ctx, func(l *leaf) error { return m.makeNode(ctx, l, v) }); err != nil {
		return err
	}
	// What works for the member ends with the tree or with the member, whichever is first.
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	t.mu.Lock()
	t.stopping[m.name] = func() { cancel(); wait.Wait() }
	t.mu.Unlock()
	if err := m.follow(running, &wait); err != nil {
		t.stopMember(m.name)
		return err
	}
	t.leaves.add(m) // before work begins: pods of nobody's leaf are dropped
	m.importAgain()
	m.work(running, &wait)
	for _, l := range m.leaves { // pods that were bound before, and their statuses
		pods, _ := t.hub.pods.GetIndexer().ByIndex(byNode, l.node)
		for _, o := range pods {
			t.podEvent(o)
		}
	}
	m.sweepDependents()
	t.o.Log.Info("member joined", "member", m.name, "leaves", len(m.leaves))
	return nil
}

// stopMember ends what works for a member, and waits for it.
func (t *Tree) stopMember(name string) {
	t.leaves.remove(name)
	t.mu.Lock()
	stop := t.stopping[name]
	delete(t.stopping, name)
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// leave ends a member, deletes its nodes and lets its Cluster go.
func (t *Tree) leave(ctx context.Context, c *api.Cluster) error {
	t.stopMember(c.Name)
	if !slices.Contains(c.Finalizers, api.FinalizerCluster) {
		return nil
	}
	nodes := []string{c.Name} // as Kosmos does: there is none of that name, and those that there are stay
	if t.o.Unjoin == UnjoinLeaves {
		nodes = nil
		models := c.Leaves()
		for i := range models {
			nodes = append(nodes, models[i].NodeName(c.Name, i))
		}
	}
	for _, node := range nodes {
		if err := t.hub.client.Nodes.Delete(ctx, "", node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s leaves: delete node %s: %w", c.Name, node, err)
		}
	}
	next := c.DeepCopyObject().(*api.Cluster)
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == api.FinalizerCluster })
	if _, err := t.hub.client.Clusters.Update(ctx, next); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s leaves: take the finalizer off: %w", c.Name, err)
	}
	return nil
}

// eachLeaf does something for all leaves of the member, by so many workers as the
// options say; the first error ends it.
func (m *member) eachLeaf(ctx context.Context, do func(*leaf) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *leaf)
	var wait sync.WaitGroup
	for range min(m.o.NodeWorkers, len(m.leaves)) {
		wait.Go(func() {
			for l := range queue {
				if err := do(l); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, l := range m.leaves {
		select {
		case queue <- l:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	return context.Cause(ctx)
}
