package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// bring brings a pod of the host down to its member, or away from there. m is whose
// queue the key comes from, nil for that of all.
func (t *Tree) bring(ctx context.Context, m *member, key string) error {
	p := t.hub.pod(key)
	if p == nil {
		return t.sweep(ctx, m, key)
	}
	l := t.leaves.find(p.node)
	if l == nil {
		return nil
	}
	m = l.member
	there := m.podOf(key)
	switch {
	case p.DeletionTimestamp != nil:
		return m.end(ctx, p, there)
	case there == nil:
		if p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed {
			return nil
		}
		if t.o.StatusGuard == GuardUID && m.hasEnded(key, p) {
			return nil // its end is on its way up, and would be undone
		}
		return m.make(ctx, l, p)
	case t.o.StatusGuard == GuardUID && !there.isOf(p.UID):
		return m.deletePod(ctx, there) // its end brings the new one down
	}
	return nil
}

// isOf tells whether a member's pod was made for the very pod of the host.
func (p *memberPod) isOf(host types.UID) bool { return p.hostUID == string(host) }

// hasEnded tells whether the member's pod of the very pod of the host is gone, which the
// host has not been told yet.
func (m *member) hasEnded(key string, host *hubPod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, ended := m.ended[key]
	return ended && of == string(host.UID)
}

// sweep deletes the member's pod of a pod that the host has no more: as Kosmos does it,
// by asking for every leaf of every member, whose member is looked for each time.
func (t *Tree) sweep(ctx context.Context, m *member, key string) error {
	switch {
	case m != nil:
		return m.deletePod(ctx, m.podOf(key))
	case t.o.NodeLookup == LookupMap:
		for _, m := range t.leaves.everyMember() {
			if err := m.deletePod(ctx, m.podOf(key)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, one := range t.leaves.list() {
		l := t.leaves.find(one.node)
		if l == nil {
			continue // its member has left meanwhile
		}
		if err := l.member.deletePod(ctx, l.member.podOf(key)); err != nil {
			return err
		}
	}
	return nil
}

// end ends a pod whose deletion somebody asked for: first in the member, then, when it
// is gone there, on the host.
func (m *member) end(ctx context.Context, host *hubPod, there *memberPod) error {
	if there == nil || m.o.StatusGuard == GuardUID && !there.own { // somebody else's of that name says nothing of it
		return m.endHost(ctx, host)
	}
	return m.deletePod(ctx, there)
}

// deletePod deletes a pod of the tree in the member. It does nothing where there is
// none, or where it is being deleted already.
func (m *member) deletePod(ctx context.Context, p *memberPod) error {
	if p == nil || !p.own || p.DeletionTimestamp != nil {
		return nil
	}
	o := metav1.DeleteOptions{}
	if m.o.StatusGuard == GuardUID {
		o.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	}
	err := m.client.Pods.Delete(ctx, p.Namespace, p.Name, o)
	if apierrors.IsNotFound(err) || m.o.StatusGuard == GuardUID && apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete pod %s/%s in member %s: %w", p.Namespace, p.Name, m.name, err)
	}
	return nil
}

// endHost takes a pod of the host away at once.
func (m *member) endHost(ctx context.Context, p *hubPod) error {
	now := int64(0)
	o := metav1.DeleteOptions{GracePeriodSeconds: &now}
	if m.o.StatusGuard == GuardUID {
		o.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	}
	err := m.hub.client.Pods.Delete(ctx, p.Namespace, p.Name, o)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s on the host: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// make makes a host's pod in the member, with what it needs.
func (m *member) make(ctx context.Context, l *leaf, kept *hubPod) (err error) {
	result := "failed"
	begin := m.o.Clock.Now()
	defer func() {
		m.metrics.down.WithLabelValues(result).Observe(m.o.Clock.Now().Sub(begin).Seconds())
	}()
	var host *corev1.Pod
	if kept.spec != nil {
		host = &corev1.Pod{ObjectMeta: kept.meta(), Spec: *kept.spec}
	} else if host, err = m.hub.client.Pods.Get(ctx, kept.Namespace, kept.Name); err != nil { // it ran before
		return client404(err)
	}
	p := fit(l, host)
	m.convert(l, host, p)
	if err := m.environment(ctx, p); err != nil {
		return err
	}
	if err := m.makeNamespace(ctx, p.Namespace); err != nil {
		return err
	}
	if err := m.dependents(ctx, host, p); err != nil {
		return err
	}
	_, err = m.client.Pods.Create(ctx, p)
	switch {
	case apierrors.IsAlreadyExists(err):
		result = "there"
		if m.o.StatusGuard == GuardUID {
			return nil // what is there is looked at when its event comes
		}
	case apierrors.IsNotFound(err): // the namespace has gone
		m.mu.Lock()
		delete(m.namespaces, p.Namespace)
		m.mu.Unlock()
	case err == nil:
		result = "made"
		m.metrics.created.WithLabelValues(m.name).Inc()
		return nil
	}
	return fmt.Errorf("make pod %s/%s in member %s: %w", p.Namespace, p.Name, m.name, err)
}

// client404 takes "not found" for an answer.
func client404(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// makeNamespace makes a namespace in the member, unless it is known to be there.
func (m *member) makeNamespace(ctx context.Context, name string) error {
	m.mu.Lock()
	known := m.namespaces[name]
	m.mu.Unlock()
	if known {
		return nil
	}
	_, err := m.client.Namespaces.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		_, err = m.client.Namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s in member %s: %w", name, m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.namespaces[name] = true
	return nil
}

// fit makes of a host's pod the one that its member gets: without what the host alone
// knows, and without what the host's scheduler was to heed.
func fit(l *leaf, host *corev1.Pod) *corev1.Pod {
	p := &corev1.Pod{Spec: *host.Spec.DeepCopy()}
	p.Name, p.Namespace, p.Finalizers = host.Name, host.Namespace, nil
	p.Labels, p.Annotations = map[string]string{}, map[string]string{}
	for k, v := range host.Labels {
		p.Labels[k] = v
	}
	for k, v := range host.Annotations {
		p.Annotations[k] = v
	}
	p.Labels[api.LabelPod] = "true"
	p.Annotations[api.AnnotationHostUID] = string(host.UID)
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

// cutKey splits NAMESPACE/NAME.
func cutKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// errNotYet says that something is not there yet, and is looked for again.
var errNotYet = errors.New("not there yet")
