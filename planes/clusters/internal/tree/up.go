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
func (c *podController) report(ctx context.Context, key string) error {
	there, host := c.member.pod(key), c.tree.hub.pod(key)
	switch {
	case there == nil:
		return c.reportEnd(ctx, key, host)
	case host == nil:
		return c.orphan(ctx, there)
	case c.leafOf(host) == nil:
		return nil // it runs elsewhere: a pod of this name was here before
	case !there.own:
		return nil // it is somebody else's by now, and its status is not kept
	case c.tree.o.StatusGuard == GuardUID && !there.isOf(host.UID):
		c.down.Queue.Add(key)
		return nil
	case c.tree.o.StatusPut == Changed && host.sum == there.sum:
		c.tree.metrics.statuses.WithLabelValues("unchanged").Inc()
		return c.orphanEnd(ctx, host, there)
	}
	if !there.isOf(host.UID) {
		c.tree.metrics.unguarded.WithLabelValues("PUT").Inc()
	}
	// Unconditional, as version 0 is: only the uid says which pod is meant.
	body := &corev1.Pod{ObjectMeta: host.meta()}
	if err := body.Status.Unmarshal(there.status); err != nil {
		return fmt.Errorf("status of pod %s in member %s: %w", key, c.member.name, err)
	}
	body.ResourceVersion, body.UID = "0", ""
	if c.tree.o.StatusGuard == GuardUID {
		body.UID = types.UID(there.hubUID)
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

// orphanEnd lets the end of a pod come through that was asked for on the host while
// nobody watched.
func (c *podController) orphanEnd(ctx context.Context, host *hubPod, there *memberPod) error {
	if host.DeletionTimestamp == nil {
		return nil
	}
	return c.deletePod(ctx, there)
}

// orphan deletes a member's pod that the host does not know any more; Kosmos does when
// it sees the host's deletion, and never afterwards.
func (c *podController) orphan(ctx context.Context, there *memberPod) error {
	if c.tree.o.StatusGuard != GuardUID {
		return nil
	}
	host, err := c.tree.hub.client.Pods.Get(ctx, there.Namespace, there.Name) // the cache may be behind
	if err == nil && there.isOf(host.UID) || err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return c.deletePod(ctx, there)
}

// reportEnd takes the pod of the host away whose pod in the member has ended. With
// Kosmos' semantics that is the pod of that name, also when it is a later one.
func (c *podController) reportEnd(ctx context.Context, key string, host *hubPod) error {
	c.mu.Lock()
	of, ended := c.finishedUIDs[key]
	c.mu.Unlock()
	if !ended {
		return nil
	}
	if host != nil && c.leafOf(host) != nil {
		other := of != string(host.UID)
		switch {
		case other && c.tree.o.StatusGuard == GuardUID:
			c.down.Queue.Add(key)
		default:
			if other {
				c.tree.metrics.unguarded.WithLabelValues("DELETE").Inc()
			}
			if err := c.endHost(ctx, host); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finishedUIDs[key] == of {
		delete(c.finishedUIDs, key)
	}
	return nil
}
