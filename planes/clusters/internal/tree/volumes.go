package tree

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// A claim that a pod needs is copied to the pod's member, where whoever provisions there
// binds it. What became of it comes back to the host, and with it the volume.

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
	c.queue = t.loop("storage", 1, c.reconcile)
	return c
}

// watch connects the member's caches of claims and volumes with the queue.
func (c *storageController) watch() error {
	claimSeen := func(o any) {
		if claim := o.(*corev1.PersistentVolumeClaim); isGlobal(claim) {
			c.queue.Queue.Add(prefixClaim + claim.Namespace + "/" + claim.Name)
		}
	}
	return addHandlers(map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		c.member.claims:  {AddFunc: claimSeen, UpdateFunc: func(_, o any) { claimSeen(o) }, DeleteFunc: c.claimGone},
		c.member.volumes: loop.Each(enqueue(c.queue, prefixVolume)),
	})
}

func claimOf(o any) ([]string, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.ClaimRef != nil {
		return []string{string(v.Spec.ClaimRef.UID)}, nil
	}
	return nil, nil
}

func isGlobal(o metav1.Object) bool { return o.GetLabels()[api.LabelGlobal] == "true" }

// isCopyOf tells whether a member's copy was made of the very object of the host; those
// that do not say so are.
func isCopyOf(there metav1.Object, host types.UID) bool {
	of := there.GetAnnotations()[api.AnnotationHostUID]
	return of == "" || of == string(host)
}

// claimGone lets the volumes of a claim of the tree go that is there no more.
func (c *storageController) claimGone(o any) {
	claim, ok := loop.Last[*corev1.PersistentVolumeClaim](o)
	if !ok || !isGlobal(claim) {
		return
	}
	c.mu.Lock()
	c.released[claim.UID] = true
	c.mu.Unlock()
	of, _ := c.member.volumes.GetIndexer().ByIndex(byClaim, string(claim.UID))
	for _, o := range of {
		c.queue.Queue.Add(prefixVolume + o.(*corev1.PersistentVolume).Name)
	}
}

// sweep looks at the volumes that the hub has of the member: some of these may have gone
// while nobody watched.
func (c *storageController) sweep() {
	for _, o := range c.tree.hub.volumes.GetIndexer().List() {
		if v := o.(*corev1.PersistentVolume); slices.Contains(ownersOf(v), c.member.name) {
			c.queue.Queue.Add(prefixVolume + v.Name)
		}
	}
}

// reconcile brings a claim or a volume of the member up to the host.
func (c *storageController) reconcile(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, prefixVolume); ok {
		return c.volumeUp(ctx, name)
	}
	return c.claimUp(ctx, strings.TrimPrefix(key, prefixClaim))
}

// claimUp tells the host what became of a claim, once it is bound in the member: its
// volume first, since a claim whose volume is not there counts as lost.
func (c *storageController) claimUp(ctx context.Context, key string) error {
	there := cached[*corev1.PersistentVolumeClaim](c.member.claims, key)
	if there == nil || !isGlobal(there) || there.Status.Phase != corev1.ClaimBound || there.Spec.VolumeName == "" {
		return nil
	}
	host, err := c.hostClaim(ctx, key)
	if err != nil {
		return client404(err)
	}
	if host.DeletionTimestamp != nil || host.Spec.VolumeName != "" && host.Spec.VolumeName != there.Spec.VolumeName {
		return nil // it ends, or another member's volume is the claim's
	}
	if c.tree.o.StatusGuard == GuardUID && !isCopyOf(there, host.UID) {
		return nil
	}
	if ok, err := c.makeVolume(ctx, there.Spec.VolumeName, host); err != nil || !ok {
		return err
	}
	if c.tree.o.StatusPut == Changed && host.Spec.VolumeName != "" && claimSum(host) == claimSum(there) {
		return nil
	}
	return c.writeClaim(ctx, host, there)
}

// hostClaim reads a claim of the host.
func (c *storageController) hostClaim(ctx context.Context, key string) (*corev1.PersistentVolumeClaim, error) {
	if c.tree.o.Dependents == DependentsCached {
		if claim := cached[*corev1.PersistentVolumeClaim](c.tree.hub.claims, key); claim != nil {
			return claim, nil
		}
	}
	namespace, name := cutKey(key)
	return c.tree.hub.client.ClaimsStatus.Get(ctx, namespace, name)
}

// writeClaim binds the host's claim to its volume and writes its status.
func (c *storageController) writeClaim(ctx context.Context, host, there *corev1.PersistentVolumeClaim) error {
	meta := map[string]any{"annotations": map[string]string{annotationBindCompleted: "yes", annotationBoundByController: "yes"}}
	if c.tree.o.StatusGuard == GuardUID {
		meta["uid"] = host.UID
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"volumeName": there.Spec.VolumeName}})
	var now *corev1.PersistentVolumeClaim
	if err == nil {
		now, err = c.tree.hub.client.ClaimsStatus.PatchIn(ctx, host.Namespace, host.Name, body)
	}
	if err == nil {
		now.Status, now.ResourceVersion = *there.Status.DeepCopy(), ""
		_, err = c.tree.hub.client.ClaimsStatus.Update(ctx, now, "status")
	}
	if apierrors.IsNotFound(err) || c.tree.o.StatusGuard == GuardUID && apierrors.IsConflict(err) {
		return nil // it is gone, or another
	}
	if err != nil {
		return fmt.Errorf("bind claim %s/%s of the host: %w", host.Namespace, host.Name, err)
	}
	return nil
}

// claimSum is a digest of a claim's status, which says nothing of times.
func claimSum(c *corev1.PersistentVolumeClaim) string {
	raw, err := (&corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase, AccessModes: c.Status.AccessModes, Capacity: c.Status.Capacity}).Marshal()
	return api.Sum(raw, err)
}

// makeVolume gives the host the volume of a claim unless it has it; false where the
// member's own is not known yet: its event is on its way.
func (c *storageController) makeVolume(ctx context.Context, name string, host *corev1.PersistentVolumeClaim) (bool, error) {
	there := cached[*corev1.PersistentVolume](c.member.volumes, name)
	if there == nil {
		return false, nil
	}
	if c.tree.o.Dependents == DependentsCached {
		if has(c.tree.hub.volumes, name) {
			return true, nil
		}
	} else if _, err := c.tree.hub.client.Volumes.Get(ctx, "", name); err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	_, err := c.tree.hub.client.Volumes.Create(ctx, c.volumeFor(there, host))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("make volume %s on the host: %w", name, err)
	}
	return true, nil
}

// volumeFor is a member's volume as the host gets it.
func (c *storageController) volumeFor(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{Spec: *v.Spec.DeepCopy()}
	out.Name, out.Annotations = v.Name, map[string]string{api.AnnotationOwners: c.member.name}
	if by := v.Annotations[annotationProvisionedBy]; by != "" {
		out.Annotations[annotationProvisionedBy] = by // so that the host leaves reclaiming to it
	}
	out.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if !c.member.standsForNodes() {
		out.Spec.NodeAffinity = nil // it is about nodes that the host does not know
	}
	return out
}

// volumeUp follows a volume of the member: that of a claim of the tree comes to the
// host, and one that is gone goes there too. A volume whose claim has gone is deleted
// as a provisioner would: simulated members have none that hears of it.
func (c *storageController) volumeUp(ctx context.Context, name string) error {
	v := cached[*corev1.PersistentVolume](c.member.volumes, name)
	owned := c.ownsAtHub(name)
	if v == nil {
		if !owned {
			return nil
		}
		return wrapGone(c.tree.hub.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s on the host", name)
	}
	if v.Spec.ClaimRef == nil {
		return nil
	}
	key := v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	if claim := cached[*corev1.PersistentVolumeClaim](c.member.claims, key); claim != nil && claim.UID == v.Spec.ClaimRef.UID {
		return c.claimUp(ctx, key)
	}
	c.mu.Lock()
	released := c.released[v.Spec.ClaimRef.UID]
	c.mu.Unlock()
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.DeletionTimestamp != nil || !released && !owned {
		return nil
	}
	return wrapGone(c.member.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s in member %s", name, c.member.name)
}

// ownsAtHub tells whether the hub has a volume that came from this member.
func (c *storageController) ownsAtHub(name string) bool {
	v := cached[*corev1.PersistentVolume](c.tree.hub.volumes, name)
	return v != nil && slices.Contains(ownersOf(v), c.member.name)
}

// wrapGone says what failed, unless the object is gone already.
func wrapGone(err error, format string, a ...any) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(a, err)...)
}
