package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// The prefixes of keys in the queue of objects that members have copies of.
const (
	prefixConfigMap = "ConfigMap "
	prefixSecret    = "Secret "
	prefixClaim     = "PersistentVolumeClaim "
	prefixVolume    = "PersistentVolume "
)

// copyController lets the copies that members have follow the hub's objects.
type copyController struct {
	tree  *tree
	queue *loop.Loop
}

func newCopyController(t *tree) *copyController {
	c := &copyController{tree: t}
	c.queue = t.newLoop("copies", 1, c.reconcile)
	return c
}

// addHandlers connects the hub's caches with the queue.
func (c *copyController) addHandlers() error {
	hub := c.tree.hub
	changes := func(old, _ metav1.Object) bool { return old != nil || c.tree.o.Dependents != DependentsLive } // a manager of Kosmos' that starts does not compare
	return errors.Join(
		c.followOwned(hub.configs, prefixConfigMap, changes), c.followOwned(hub.secrets, prefixSecret, changes),
		c.followOwned(hub.claims, prefixClaim, func(_, now metav1.Object) bool { return now == nil }),
		loop.Watch(hub.volumes, c.volumeChanged),
	)
}

// followOwned queues the objects of the hub that members have copies of, at the events that count.
func (c *copyController) followOwned(i cache.SharedIndexInformer, prefix string, counts func(old, now metav1.Object) bool) error {
	enqueue := enqueueTo(c.queue, prefix)
	return loop.Watch(i, func(old, now metav1.Object) {
		if o := cmp.Or(now, old); counts(old, now) && len(ownersOf(o)) > 0 {
			enqueue(o)
		}
	})
}

// reconcile brings a change of an object of the hub to the members that have a copy.
func (c *copyController) reconcile(ctx context.Context, key string) error {
	t := c.tree
	if name, ok := strings.CutPrefix(key, prefixSecret); ok {
		return t.secretCopies().copyToMembers(ctx, t.leaves, name)
	}
	if name, ok := strings.CutPrefix(key, prefixClaim); ok {
		return t.claimCopies().copyToMembers(ctx, t.leaves, name)
	}
	if name, ok := strings.CutPrefix(key, prefixVolume); ok {
		return c.removeVolume(ctx, name)
	}
	return t.configMaps().copyToMembers(ctx, t.leaves, strings.TrimPrefix(key, prefixConfigMap))
}

// enqueueCopies looks at all copies that a member has: some of the hub's may have gone or changed
// while nobody watched.
func (c *copyController) enqueueCopies(m *member) {
	c.tree.configMaps().enqueueCopies(m, enqueueTo(c.queue, prefixConfigMap))
	c.tree.secretCopies().enqueueCopies(m, enqueueTo(c.queue, prefixSecret))
	c.tree.claimCopies().enqueueCopies(m, enqueueTo(c.queue, prefixClaim))
}

// copyToMembers brings the change of one to the members that may have a copy.
func (c copied[T]) copyToMembers(ctx context.Context, members *leaves, key string) error {
	namespace, name := cutKey(key)
	hub, err := c.hub.Get(ctx, namespace, name)
	if err == nil && c.fill != nil && c.alwaysWritten { // as Kosmos reads it, for the owners and for the data
		hub, err = c.hub.Get(ctx, namespace, name)
	}
	found := !apierrors.IsNotFound(err)
	if found && err != nil {
		return fmt.Errorf("read %s %s of the host: %w", c.what, key, err)
	}
	if found && c.fill == nil && c.alwaysWritten {
		return nil
	}
	if !found || c.fill == nil {
		return c.followIn(ctx, members.everyMember(), hub, found, namespace, name)
	}
	var owners []*joined
	for _, owner := range ownersOf(hub) {
		if j := members.memberNamed(owner); j != nil { // else it has left, or not joined yet: then its pods bring it
			owners = append(owners, j)
		}
	}
	return c.followIn(ctx, owners, hub, found, namespace, name)
}

// followIn brings the change to some members.
func (c copied[T]) followIn(ctx context.Context, members []*joined, hub T, found bool, namespace, name string) error {
	for _, j := range members {
		kind := c.member(j.member)
		there, err := kind.Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		verb := "read"
		if err == nil {
			switch c.decideChanged(hub, found, there) {
			case copyDelete:
				verb, err = "delete", ignoreNotFound(kind.Delete(ctx, namespace, name, metav1.DeleteOptions{}))
			case copyWrite:
				c.fill(there, hub)
				verb = "write"
				_, err = kind.Update(ctx, there)
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s %s/%s in member %s: %w", verb, c.what, namespace, name, j.member.name, err)
		}
	}
	return nil
}

// copyAction is what is to be done for a member's copy of an object of the hub.
type copyAction string

const (
	copyKeep   copyAction = "leave the copy"
	copyCreate copyAction = "create the copy"
	copyWrite  copyAction = "write the copy"
	copyDelete copyAction = "delete the copy"
	copyWait   copyAction = "wait until the copy of the one before is gone"
)

// decideChanged decides after a change on the hub for what a member has of that name;
// without found, the hub has the object no more.
func (c copied[T]) decideChanged(hub T, found bool, member T) copyAction {
	switch {
	case !isGlobal(member):
		return copyKeep // it is the member's own
	case !found:
		return copyDelete
	case c.fill != nil && (c.alwaysWritten || !c.sameData(member, hub)):
		return copyWrite
	case c.fill == nil && !isCopyOf(member, hub.GetUID()):
		return copyDelete // the hub's was deleted and made again
	}
	return copyKeep
}

// decideNeeded decides for an object that a pod needs; without found, the member has none
// of that name.
func (c copied[T]) decideNeeded(hub, member T, found bool) copyAction {
	switch {
	case !found:
		return copyCreate
	case !c.alwaysWritten && !isCopyOf(member, hub.GetUID()):
		return copyWait
	}
	return copyKeep
}

// enqueueCopies looks at each copy that a member has of what the hub may have taken away or
// changed while nobody watched, or while the member joined. Kosmos hears of the hub's
// deletions alone.
func (c copied[T]) enqueueCopies(m *member, enqueue func(metav1.Object)) {
	for _, there := range slim.All[T](c.members(m)) {
		if !isGlobal(there) || there.GetName() == api.NameHostCA {
			continue
		}
		hub, has := slim.Lookup[T](c.hubs, loop.Key(there))
		if !has || !isCopyOf(there, hub.GetUID()) || c.fill != nil && !c.sameData(there, hub) {
			enqueue(there)
		}
	}
}

// volumeChanged looks again at a volume that the hub got while its member lost it, and lets the
// member's go that somebody took from the hub.
func (c *copyController) volumeChanged(old, now *corev1.PersistentVolume) {
	if old != nil && now != nil {
		return
	}
	v := cmp.Or(now, old)
	for _, name := range ownersOf(v) {
		j := c.tree.leaves.memberNamed(name)
		if j == nil { // it has not joined
			continue
		}
		switch has := slim.Has(j.member.volumes, v.Name); {
		case now == nil && has:
			c.queue.Queue.Add(prefixVolume + name + "/" + v.Name)
		case now != nil && !has:
			j.storage.queue.Queue.Add(prefixVolume + v.Name)
		}
	}
}

// removeVolume deletes a member's volume, MEMBER/NAME, that the hub has no more.
func (c *copyController) removeVolume(ctx context.Context, key string) error {
	owner, name := cutKey(key)
	j := c.tree.leaves.memberNamed(owner)
	if j == nil || slim.Has(c.tree.hub.volumes, name) { // it has left, or the volume was made again
		return nil
	}
	return wrapGone(j.member.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s in member %s", name, owner)
}
