package tree

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// The prefixes of keys in the queue of objects that members have copies of.
const (
	prefixConfigMap = "ConfigMap "
	prefixSecret    = "Secret "
	prefixClaim     = "PersistentVolumeClaim "
	prefixVolume    = "PersistentVolume "
)

// ofOwned handles the events of objects of the host that members have copies of.
func ofOwned(f func(any)) cache.ResourceEventHandlerFuncs {
	owned := func(o any) {
		if m, ok := loop.Last[metav1.Object](o); ok && len(ownersOf(m)) > 0 {
			f(o)
		}
	}
	return loop.Each(owned)
}

// copy brings a change of an object of the host to the members that have a copy.
func (t *Tree) copy(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, prefixSecret); ok {
		return t.secretCopies().follow(ctx, t, name)
	}
	if name, ok := strings.CutPrefix(key, prefixClaim); ok {
		return t.claimCopies().follow(ctx, t, name)
	}
	if name, ok := strings.CutPrefix(key, prefixVolume); ok {
		return t.removeVolume(ctx, name)
	}
	return t.configMaps().follow(ctx, t, strings.TrimPrefix(key, prefixConfigMap))
}

// follow brings the change of one.
func (c copied[T]) follow(ctx context.Context, t *Tree, key string) error {
	namespace, name := cutKey(key)
	host, err := c.host.Get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return c.remove(ctx, t, namespace, name, "")
	}
	if err != nil {
		return fmt.Errorf("read %s %s of the host: %w", c.what, key, err)
	}
	if c.fill == nil && c.alwaysWritten {
		return nil
	}
	if c.fill == nil { // it was deleted and made again: copies of the one before go
		return c.remove(ctx, t, namespace, name, host.GetUID())
	}
	for _, owner := range ownersOf(host) {
		m := t.leaves.member(owner)
		if m == nil {
			continue // it has left, or not joined yet: then its pods bring it
		}
		there, err := c.member(m).Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) || err == nil && (!isGlobal(there) || !c.alwaysWritten && c.sameData(there, host)) {
			continue
		}
		if err == nil {
			c.fill(there, host)
			_, err = c.member(m).Update(ctx, there)
		}
		if err != nil {
			return fmt.Errorf("write %s %s in member %s: %w", c.what, key, m.name, err)
		}
	}
	return nil
}

// remove deletes the copies of an object that the host has no more, but for those of
// the object with a uid: "" is none's.
func (c copied[T]) remove(ctx context.Context, t *Tree, namespace, name string, but types.UID) error {
	for _, m := range t.leaves.everyMember() {
		there, err := c.member(m).Get(ctx, namespace, name)
		if err == nil && isGlobal(there) && (but == "" || !isCopyOf(there, but)) {
			err = c.member(m).Delete(ctx, namespace, name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s/%s in member %s: %w", c.what, namespace, name, m.name, err)
		}
	}
	return nil
}

// sweep looks at each copy that a member has of what the host may have taken away or
// changed while nobody watched, or while the member joined. Kosmos hears of the host's
// deletions alone.
func (c copied[T]) sweep(m *member, prefix string) {
	for _, o := range c.members(m).GetIndexer().List() {
		there := o.(T)
		key, ok := loop.Key(o)
		if !ok || !isGlobal(there) || there.GetName() == api.NameHostCA {
			continue
		}
		host, has, _ := c.hosts.GetIndexer().GetByKey(key)
		if !has || !isCopyOf(there, host.(T).GetUID()) || c.fill != nil && !c.sameData(there, host.(T)) {
			m.copies.Queue.Add(prefix + key)
		}
	}
}
