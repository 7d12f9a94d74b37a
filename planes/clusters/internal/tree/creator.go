package tree

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// podCreator creates pods in a member, with what they need there.
type podCreator struct {
	tree       *tree
	member     *member
	namespaces *namespaces

	mu     sync.Mutex
	roots  map[string]bool      // namespaces that have a copy of the hub's authority
	tokens map[string]types.UID // of the hub's Secrets of which the member has copies, by key
}

func newPodCreator(t *tree, m *member, n *namespaces) *podCreator {
	return &podCreator{tree: t, member: m, namespaces: n, roots: map[string]bool{}, tokens: map[string]types.UID{}}
}

// createPod creates a pod of the hub in the member, with what it needs.
func (c *podCreator) createPod(ctx context.Context, l *leaf, kept *hubPod) (err error) {
	result := "failed"
	begin := c.tree.o.Clock.Now()
	defer func() {
		c.tree.metrics.down.WithLabelValues(result).Observe(c.tree.o.Clock.Now().Sub(begin).Seconds())
	}()
	var hub *corev1.Pod
	if kept.spec != nil {
		hub = &corev1.Pod{ObjectMeta: kept.objectMeta(), Spec: *kept.spec}
	} else if hub, err = c.tree.hub.client.Pods.Get(ctx, kept.Namespace, kept.Name); err != nil { // it ran before
		return ignoreNotFound(err)
	}
	p := memberPodFor(l, hub)
	c.tree.convertPod(l, hub, p)
	if err := c.setEnvironment(ctx, p); err != nil {
		return err
	}
	if err := c.namespaces.ensureNamespace(ctx, p.Namespace); err != nil {
		return err
	}
	if err := c.copyDependents(ctx, hub, p); err != nil {
		return err
	}
	_, err = c.member.client.Pods.Create(ctx, p)
	switch {
	case apierrors.IsAlreadyExists(err):
		result = "there"
		if c.tree.o.StatusGuard == GuardUID {
			return nil // what is there is looked at when its event comes
		}
	case apierrors.IsNotFound(err): // the namespace has gone
		c.namespaces.forgetNamespace(p.Namespace)
		c.forgetBrought(p.Namespace)
	case err == nil:
		result = "made"
		c.tree.metrics.created.WithLabelValues(c.member.name).Inc()
		return nil
	}
	return fmt.Errorf("make pod %s/%s in member %s: %w", p.Namespace, p.Name, c.member.name, err)
}

// forgetBrought lets what a namespace was brought once be brought again.
func (c *podCreator) forgetBrought(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.roots, namespace)
	maps.DeleteFunc(c.tokens, func(key string, _ types.UID) bool { return strings.HasPrefix(key, namespace+"/") })
}

// memberPodFor makes of a hub's pod the one that its member gets: without what the hub alone
// knows, and without what the hub's scheduler was to heed.
func memberPodFor(l *leaf, hub *corev1.Pod) *corev1.Pod {
	p := &corev1.Pod{Spec: *hub.Spec.DeepCopy()}
	p.Name, p.Namespace, p.Finalizers = hub.Name, hub.Namespace, nil
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	maps.Copy(p.Labels, hub.Labels)
	maps.Copy(p.Annotations, hub.Annotations)
	p.Labels[api.LabelPod] = "true"
	p.Annotations[api.AnnotationHostUID] = string(hub.UID)
	s := &p.Spec
	s.NodeName, s.NodeSelector, s.Affinity, s.Tolerations, s.TopologySpreadConstraints = "", nil, nil, nil, nil
	s.Priority, s.PriorityClassName, s.PreemptionPolicy, s.Overhead, s.RuntimeClassName = nil, "", nil, nil, nil
	no := false
	s.ServiceAccountName, s.DeprecatedServiceAccount, s.AutomountServiceAccountToken = "", "", &no
	s.SchedulerName = ""
	switch l.mode {
	case api.LeafNode:
		s.NodeName = l.model.NodeSelector.NodeName
	case api.LeafParty:
		s.NodeSelector = l.model.NodeSelector.LabelSelector.MatchLabels
	}
	return p
}
