package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// report writes to the host how a member's pod is, or takes the host's pod away when
// that of the member is gone.
func (m *member) report(ctx context.Context, key string) error {
	there, host := m.podOf(key), m.hub.pod(key)
	switch {
	case there == nil:
		return m.reportEnd(ctx, key, host)
	case host == nil:
		return m.orphan(ctx, there)
	case m.leafOf(host) == nil:
		return nil // it runs elsewhere: a pod of this name was here before
	case !there.own:
		return nil // it is somebody else's by now, and its status is not kept
	case m.o.StatusGuard == GuardUID && !there.isOf(host.UID):
		m.downLoop().Queue.Add(key)
		return nil
	case m.o.StatusPut == Changed && host.sum == there.sum:
		m.metrics.statuses.WithLabelValues("unchanged").Inc()
		return m.orphanEnd(ctx, host, there)
	}
	if !there.isOf(host.UID) {
		m.metrics.unguarded.WithLabelValues("PUT").Inc()
	}
	// Unconditional, as version 0 is: only the uid says which pod is meant.
	body := &corev1.Pod{ObjectMeta: host.meta()}
	if err := body.Status.Unmarshal(there.status); err != nil {
		return fmt.Errorf("status of pod %s in member %s: %w", key, m.name, err)
	}
	body.ResourceVersion, body.UID = "0", ""
	if m.o.StatusGuard == GuardUID {
		body.UID = types.UID(there.hostUID)
	}
	metav1.SetMetaDataLabel(&body.ObjectMeta, api.LabelPod, "true")
	_, err := m.hub.client.Pods.Update(ctx, body, "status")
	switch {
	case err == nil:
		m.metrics.statuses.WithLabelValues("written").Inc()
		return nil
	case apierrors.IsNotFound(err), m.o.StatusGuard == GuardUID && apierrors.IsConflict(err):
		return nil // it is gone, or another: the event is on its way
	}
	return fmt.Errorf("write status of pod %s: %w", key, err)
}

// leafOf returns the leaf of this member that a pod of the host is bound to, nil if
// there is none.
func (m *member) leafOf(host *hubPod) *leaf {
	if l := m.Tree.leaves.route(host.node); l != nil && l.member == m {
		return l
	}
	return nil
}

// orphanEnd lets the end of a pod come through that was asked for on the host while
// nobody watched.
func (m *member) orphanEnd(ctx context.Context, host *hubPod, there *memberPod) error {
	if host.DeletionTimestamp == nil {
		return nil
	}
	return m.deletePod(ctx, there)
}

// orphan deletes a member's pod that the host does not know any more; Kosmos does when
// it sees the host's deletion, and never afterwards.
func (m *member) orphan(ctx context.Context, there *memberPod) error {
	if m.o.StatusGuard != GuardUID {
		return nil
	}
	host, err := m.hub.client.Pods.Get(ctx, there.Namespace, there.Name) // the cache may be behind
	if err == nil && there.isOf(host.UID) || err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return m.deletePod(ctx, there)
}

// reportEnd takes the pod of the host away whose pod in the member has ended. With
// Kosmos' semantics that is the pod of that name, also when it is a later one.
func (m *member) reportEnd(ctx context.Context, key string, host *hubPod) error {
	m.mu.Lock()
	of, ended := m.ended[key]
	m.mu.Unlock()
	if !ended {
		return nil
	}
	if host != nil && m.leafOf(host) != nil {
		other := of != string(host.UID)
		switch {
		case other && m.o.StatusGuard == GuardUID:
			m.downLoop().Queue.Add(key)
		default:
			if other {
				m.metrics.unguarded.WithLabelValues("DELETE").Inc()
			}
			if err := m.endHost(ctx, host); err != nil {
				return err
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended[key] == of {
		delete(m.ended, key)
	}
	return nil
}
