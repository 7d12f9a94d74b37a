package tree

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// reconcileMember brings a member nearer to what its Cluster says: joined, joined anew, or gone.
func (m *manager) reconcileMember(ctx context.Context, name string) error {
	c := slim.Get[*api.Cluster](m.tree.hub.clusters, name)
	switch {
	case c == nil:
		m.stopMember(name)
		return nil
	case c.Annotations[api.AnnotationRole] == api.RoleRoot:
		return nil
	case c.DeletionTimestamp != nil || c.Spec.Tree == nil || !c.Spec.Tree.Enable:
		return m.removeMember(ctx, c)
	case !slices.Contains(c.Finalizers, api.FinalizerCluster):
		next := c.DeepCopyObject().(*api.Cluster)
		next.Finalizers = append(next.Finalizers, api.FinalizerCluster)
		if _, err := m.tree.hub.client.Clusters.Update(ctx, next); err != nil {
			return fmt.Errorf("cluster %s: put the finalizer: %w", name, err)
		}
	}
	made := fmt.Sprint(c.UID, c.Generation)
	if j := m.tree.leaves.memberNamed(name); j != nil && j.made == made {
		return nil
	}
	defer m.tree.startTimer(m.tree.metrics.joined.WithLabelValues().Observe)()
	m.stopMember(name)
	j, err := newJoined(m.tree, c, made, m.tree.pods)
	if err != nil {
		return err
	}
	return m.startMember(ctx, j)
}

// startMember asks a member who it is, makes its nodes, and starts what works for it.
func (m *manager) startMember(ctx context.Context, j *joined) error {
	name := j.member.name
	if err := j.member.client.Discover(ctx, m.tree.o.Discovery == DiscoverAll); err != nil {
		return fmt.Errorf("cluster %s: discover: %w", name, err)
	}
	if err := j.member.client.Version(ctx); err != nil {
		return fmt.Errorf("cluster %s: version: %w", name, err)
	}
	if err := j.nodes.makeNodes(ctx); err != nil {
		return err
	}
	// What works for the member ends with the tree or with the member, whichever is first.
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	m.mu.Lock()
	m.stopping[name] = func() { cancel(); wait.Wait() }
	m.mu.Unlock()
	if err := j.startCaches(running, &wait); err != nil {
		m.stopMember(name)
		return err
	}
	m.tree.leaves.addMember(j) // before work begins: pods of nobody's leaf are dropped
	if j.imports != nil {
		j.imports.importAgain()
	}
	j.startControllers(running, &wait)
	m.lookAgain(j)
	m.tree.o.Log.Info("member joined", "member", name, "leaves", len(j.member.leaves))
	return nil
}

// lookAgain looks at what the hub had of a member before it joined: pods that were bound
// to it and their statuses, and copies and volumes of which either side may have gone
// while nobody watched.
func (m *manager) lookAgain(j *joined) {
	for _, l := range j.member.leaves {
		for _, p := range slim.ByIndex[*hubPod](m.tree.hub.pods, byNode, l.node) {
			m.tree.hubPodSeen(p)
		}
	}
	if m.tree.o.Dependents == DependentsCached {
		m.copies.enqueueCopies(j.member)
		j.storage.enqueueVolumes()
	}
}

// stopMember ends what works for a member, and waits for it.
func (m *manager) stopMember(name string) {
	m.tree.leaves.removeMember(name)
	m.mu.Lock()
	stop := m.stopping[name]
	delete(m.stopping, name)
	m.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// removeMember ends a member, deletes its nodes and lets its Cluster go.
func (m *manager) removeMember(ctx context.Context, c *api.Cluster) error {
	m.stopMember(c.Name)
	if !slices.Contains(c.Finalizers, api.FinalizerCluster) {
		return nil
	}
	nodes := []string{c.Name} // as Kosmos does: there is none of that name, and those that there are stay
	if m.tree.o.Unjoin == UnjoinLeaves {
		nodes = nil
		models := c.Leaves()
		for i := range models {
			nodes = append(nodes, models[i].NodeName(c.Name, i))
		}
	}
	for _, node := range nodes {
		if err := m.tree.hub.client.Nodes.Delete(ctx, "", node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("cluster %s leaves: delete node %s: %w", c.Name, node, err)
		}
	}
	next := c.DeepCopyObject().(*api.Cluster)
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == api.FinalizerCluster })
	if _, err := m.tree.hub.client.Clusters.Update(ctx, next); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %s leaves: take the finalizer off: %w", c.Name, err)
	}
	return nil
}
