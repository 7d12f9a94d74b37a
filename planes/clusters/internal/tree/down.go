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
)

// reconcileDown brings a pod of the hub down to its member, or away from there. from is
// whose queue the key comes from, nil for that of all.
func (t *tree) reconcileDown(ctx context.Context, from *podController, key string) error {
	hub := t.hub.pod(key)
	if hub == nil {
		return t.sweep(ctx, from, key)
	}
	l := t.leaves.find(hub.node)
	if l == nil {
		return nil
	}
	return l.joined.pods.bringDown(ctx, l, key, hub)
}

func (c *podController) bringDown(ctx context.Context, l *leaf, key string, hub *hubPod) error {
	there := c.member.pod(key)
	switch {
	case hub.DeletionTimestamp != nil:
		return c.end(ctx, hub, there)
	case there == nil:
		if hub.phase == corev1.PodSucceeded || hub.phase == corev1.PodFailed {
			return nil
		}
		if c.tree.o.StatusGuard == GuardUID && c.hasEnded(key, hub) {
			return nil // its end is on its way up, and would be undone
		}
		return c.creator.create(ctx, l, hub)
	case c.tree.o.StatusGuard == GuardUID && !there.isOf(hub.UID):
		return c.deletePod(ctx, there) // its end brings the new one down
	}
	return nil
}

// isOf tells whether a member's pod was made for the very pod of the host.
func (p *memberPod) isOf(host types.UID) bool { return p.hubUID == string(host) }

// hasEnded tells whether the member's pod of the very pod of the host is gone, which the
// host has not been told yet.
func (c *podController) hasEnded(key string, host *hubPod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, ended := c.finishedUIDs[key]
	return ended && of == string(host.UID)
}

// sweep deletes the member's pod of a pod that the host has no more: as Kosmos does it,
// by asking for every leaf of every member, whose member is looked for each time.
func (t *tree) sweep(ctx context.Context, from *podController, key string) error {
	switch {
	case from != nil:
		return from.deleteCopy(ctx, key)
	case t.o.NodeLookup == LookupMap:
		for _, j := range t.leaves.everyMember() {
			if err := j.pods.deleteCopy(ctx, key); err != nil {
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
		if err := l.joined.pods.deleteCopy(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// deleteCopy deletes the member's pod of a key, if it is the tree's.
func (c *podController) deleteCopy(ctx context.Context, key string) error {
	return c.deletePod(ctx, c.member.pod(key))
}

// end ends a pod whose deletion somebody asked for: first in the member, then, when it
// is gone there, on the host.
func (c *podController) end(ctx context.Context, host *hubPod, there *memberPod) error {
	if there == nil || c.tree.o.StatusGuard == GuardUID && !there.own { // somebody else's of that name says nothing of it
		return c.endHost(ctx, host)
	}
	return c.deletePod(ctx, there)
}

// deletePod deletes a pod of the tree in the member. It does nothing where there is
// none, or where it is being deleted already.
func (c *podController) deletePod(ctx context.Context, p *memberPod) error {
	if p == nil || !p.own || p.DeletionTimestamp != nil {
		return nil
	}
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

// endHost takes a pod of the host away at once.
func (c *podController) endHost(ctx context.Context, p *hubPod) error {
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

// cutKey splits NAMESPACE/NAME.
func cutKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// errNotYet says that something is not there yet, and is looked for again.
var errNotYet = errors.New("not there yet")
