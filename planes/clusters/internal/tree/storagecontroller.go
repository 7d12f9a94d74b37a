package tree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// A claim that a pod needs is copied to the pod's member, where whoever provisions there
// binds it. What became of it comes back to the hub, and with it the volume.

const byClaim = "claim" // index of a member's volumes: the uid of the claim

// The annotations by which a volume binder knows that a claim has been bound.
const (
	annotationBindCompleted     = "pv.kubernetes.io/bind-completed"
	annotationBoundByController = "pv.kubernetes.io/bound-by-controller"
	annotationProvisionedBy     = "pv.kubernetes.io/provisioned-by"
)

func (t *tree) claimCopies() copied[*corev1.PersistentVolumeClaim] {
	return copied[*corev1.PersistentVolumeClaim]{
		what: "claim", hub: t.hub.client.Claims, hubs: t.hub.claims, alwaysWritten: t.o.Dependents == DependentsLive,
		member:  func(m *member) api.Kind[*corev1.PersistentVolumeClaim] { return m.client.Claims },
		members: func(m *member) cache.SharedIndexInformer { return m.claims },
		copyOf: func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
			out := &corev1.PersistentVolumeClaim{Spec: *c.Spec.DeepCopy()}
			out.Spec.VolumeName = "" // the member provisions its own
			out.Annotations = map[string]string{api.AnnotationHostUID: string(c.UID)}
			return out
		},
	}
}

// storageController brings what became of a member's claims, and its volumes, up to the
// hub.
type storageController struct {
	tree   *tree
	member *member
	queue  *loop.Loop

	mu       sync.Mutex
	released map[types.UID]bool // claims of the tree that are gone, by uid
}

func newStorageController(t *tree, m *member) *storageController {
	c := &storageController{tree: t, member: m, released: map[types.UID]bool{}}
	c.queue = t.newLoop("storage", 1, c.reconcile)
	return c
}

// addHandlers connects the member's caches of claims and volumes with the queue.
func (c *storageController) addHandlers() error {
	return errors.Join(loop.Watch(c.member.claims, c.claimChanged), loop.WatchEach(c.member.volumes, enqueueTo(c.queue, prefixVolume)))
}

func claimOf(o any) ([]string, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef != nil {
		return []string{string(v.Spec.ClaimRef.UID)}, nil
	}
	return nil, nil
}

// claimChanged looks at a claim of the tree, or lets the volumes go of one that is there no more.
func (c *storageController) claimChanged(old, now *corev1.PersistentVolumeClaim) {
	claim := cmp.Or(now, old)
	switch {
	case !isGlobal(claim):
		return
	case now != nil:
		c.queue.Queue.Add(prefixClaim + claim.Namespace + "/" + claim.Name)
		return
	}
	c.mu.Lock()
	c.released[claim.UID] = true
	c.mu.Unlock()
	for _, v := range slim.ByIndex[*corev1.PersistentVolume](c.member.volumes, byClaim, string(claim.UID)) {
		c.queue.Queue.Add(prefixVolume + v.Name)
	}
}

// enqueueVolumes looks at the volumes that the hub has of the member: some of these may have gone
// while nobody watched.
func (c *storageController) enqueueVolumes() {
	for _, v := range slim.All[*corev1.PersistentVolume](c.tree.hub.volumes) {
		if slices.Contains(ownersOf(v), c.member.name) {
			c.queue.Queue.Add(prefixVolume + v.Name)
		}
	}
}

// reconcile brings a claim or a volume of the member up to the hub.
func (c *storageController) reconcile(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, prefixVolume); ok {
		return c.volumeUp(ctx, name)
	}
	return c.claimUp(ctx, strings.TrimPrefix(key, prefixClaim))
}

// claimUp tells the hub what became of a claim, once it is bound in the member: its
// volume first, since a claim whose volume is not there counts as lost.
func (c *storageController) claimUp(ctx context.Context, key string) error {
	member := slim.Get[*corev1.PersistentVolumeClaim](c.member.claims, key)
	if !isBoundCopy(member) {
		return nil
	}
	hub, err := c.hubClaim(ctx, key)
	if err != nil {
		return ignoreNotFound(err)
	}
	volume := slim.Get[*corev1.PersistentVolume](c.member.volumes, member.Spec.VolumeName)
	action := decideClaim(hub, member, volume, &c.tree.o)
	if action == claimKeep {
		return nil
	}
	if err := c.makeVolume(ctx, volume, hub); err != nil || action == claimGiveVolume {
		return err
	}
	return c.writeClaim(ctx, hub, member)
}

// hubClaim reads a claim of the hub.
func (c *storageController) hubClaim(ctx context.Context, key string) (*corev1.PersistentVolumeClaim, error) {
	if c.tree.o.Dependents == DependentsCached {
		if claim := slim.Get[*corev1.PersistentVolumeClaim](c.tree.hub.claims, key); claim != nil {
			return claim, nil
		}
	}
	namespace, name := cutKey(key)
	return c.tree.hub.client.ClaimsStatus.Get(ctx, namespace, name)
}

// writeClaim binds the hub's claim to its volume and writes its status.
func (c *storageController) writeClaim(ctx context.Context, hub, there *corev1.PersistentVolumeClaim) error {
	meta := map[string]any{"annotations": map[string]string{annotationBindCompleted: "yes", annotationBoundByController: "yes"}}
	if c.tree.o.StatusGuard == GuardUID {
		meta["uid"] = hub.UID
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"volumeName": there.Spec.VolumeName}})
	var now *corev1.PersistentVolumeClaim
	if err == nil {
		now, err = c.tree.hub.client.ClaimsStatus.PatchIn(ctx, hub.Namespace, hub.Name, body)
	}
	if err == nil {
		now.Status, now.ResourceVersion = *there.Status.DeepCopy(), ""
		_, err = c.tree.hub.client.ClaimsStatus.Update(ctx, now, "status")
	}
	if apierrors.IsNotFound(err) || c.tree.o.StatusGuard == GuardUID && apierrors.IsConflict(err) {
		return nil // it is gone, or another
	}
	if err != nil {
		return fmt.Errorf("bind claim %s/%s of the host: %w", hub.Namespace, hub.Name, err)
	}
	return nil
}

// makeVolume gives the hub the volume of a claim unless it has it.
func (c *storageController) makeVolume(ctx context.Context, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if c.tree.o.Dependents == DependentsCached {
		if slim.Has(c.tree.hub.volumes, volume.Name) {
			return nil
		}
	} else if _, err := c.tree.hub.client.Volumes.Get(ctx, "", volume.Name); err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	_, err := c.tree.hub.client.Volumes.Create(ctx, hubVolume(c.member.name, volume, claim, c.member.standsForNodes()))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make volume %s on the host: %w", volume.Name, err)
	}
	return nil
}

// volumeUp follows a volume of the member.
func (c *storageController) volumeUp(ctx context.Context, name string) error {
	p := volumePair{
		member: slim.Get[*corev1.PersistentVolume](c.member.volumes, name),
		owned:  isOwner(slim.Get[*corev1.PersistentVolume](c.tree.hub.volumes, name), c.member.name),
	}
	if p.member != nil && p.member.Spec.ClaimRef != nil {
		p.claim = slim.Get[*corev1.PersistentVolumeClaim](c.member.claims, claimKey(p.member))
		c.mu.Lock()
		p.released = c.released[p.member.Spec.ClaimRef.UID]
		c.mu.Unlock()
	}
	switch p.decideVolume() {
	case volumeDeleteOnHub:
		return wrapGone(c.tree.hub.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s on the host", name)
	case volumeClaimUp:
		return c.claimUp(ctx, claimKey(p.member))
	case volumeDelete:
		return wrapGone(c.member.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s in member %s", name, c.member.name)
	}
	return nil
}

// wrapGone says what failed, unless the object is gone already.
func wrapGone(err error, format string, a ...any) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(a, err)...)
}
