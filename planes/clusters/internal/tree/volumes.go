package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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

func (t *Tree) claimCopies() copied[*corev1.PersistentVolumeClaim] {
	return copied[*corev1.PersistentVolumeClaim]{
		what: "claim", host: t.hub.client.Claims, hosts: t.hub.claims, alwaysWritten: t.o.Dependents == DependentsLive,
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

// watchStorage makes the member's caches of claims and volumes, and connects them with
// the queue that brings them up.
func (m *member) watchStorage() error {
	m.claims = m.client.Claims.Informer("", nil)
	m.volumes = m.client.Volumes.Informer("", cache.Indexers{byClaim: claimOf})
	errs := []error{m.claims.SetTransform(slimObject), m.volumes.SetTransform(slimObject)}
	handle := func(informer cache.SharedIndexInformer, h cache.ResourceEventHandler) {
		_, err := informer.AddEventHandler(h)
		errs = append(errs, err)
	}
	claimSeen := func(o any) {
		if c := o.(*corev1.PersistentVolumeClaim); isGlobal(c) {
			m.storage.Queue.Add(prefixClaim + c.Namespace + "/" + c.Name)
		}
	}
	handle(m.claims, cache.ResourceEventHandlerFuncs{
		AddFunc: claimSeen, UpdateFunc: func(_, o any) { claimSeen(o) }, DeleteFunc: m.claimGone,
	})
	handle(m.volumes, loop.Each(func(o any) {
		if v, ok := loop.Last[*corev1.PersistentVolume](o); ok {
			m.storage.Queue.Add(prefixVolume + v.Name)
		}
	}))
	return errors.Join(errs...)
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
func (m *member) claimGone(o any) {
	c, ok := loop.Last[*corev1.PersistentVolumeClaim](o)
	if !ok || !isGlobal(c) {
		return
	}
	m.mu.Lock()
	m.released[c.UID] = true
	m.mu.Unlock()
	of, _ := m.volumes.GetIndexer().ByIndex(byClaim, string(c.UID))
	for _, o := range of {
		m.storage.Queue.Add(prefixVolume + o.(*corev1.PersistentVolume).Name)
	}
}

// sweepDependents looks at all copies that the member has, and at the volumes that the
// host has of it: of either some may have gone on the other side while nobody watched.
func (m *member) sweepDependents() {
	if m.o.Dependents != DependentsCached {
		return
	}
	m.configMaps().sweep(m, prefixConfigMap)
	m.secretCopies().sweep(m, prefixSecret)
	m.claimCopies().sweep(m, prefixClaim)
	for _, o := range m.hub.volumes.GetIndexer().List() {
		if v := o.(*corev1.PersistentVolume); slices.Contains(ownersOf(v), m.name) {
			m.storage.Queue.Add(prefixVolume + v.Name)
		}
	}
}

// renewStorage brings a claim or a volume of the member up to the host.
func (m *member) renewStorage(ctx context.Context, key string) error {
	if name, ok := strings.CutPrefix(key, prefixVolume); ok {
		return m.volumeUp(ctx, name)
	}
	return m.claimUp(ctx, strings.TrimPrefix(key, prefixClaim))
}

// claimUp tells the host what became of a claim, once it is bound in the member: its
// volume first, since a claim whose volume is not there counts as lost.
func (m *member) claimUp(ctx context.Context, key string) error {
	o, ok, _ := m.claims.GetIndexer().GetByKey(key)
	if !ok {
		return nil
	}
	there := o.(*corev1.PersistentVolumeClaim)
	if !isGlobal(there) || there.Status.Phase != corev1.ClaimBound || there.Spec.VolumeName == "" {
		return nil
	}
	host, err := m.hostClaim(ctx, key)
	if err != nil {
		return client404(err)
	}
	if host.DeletionTimestamp != nil || host.Spec.VolumeName != "" && host.Spec.VolumeName != there.Spec.VolumeName {
		return nil // it ends, or another member's volume is the claim's
	}
	if m.o.StatusGuard == GuardUID && !isCopyOf(there, host.UID) {
		return nil
	}
	if ok, err := m.makeVolume(ctx, there.Spec.VolumeName, host); err != nil || !ok {
		return err
	}
	if m.o.StatusPut == Changed && host.Spec.VolumeName != "" && claimSum(host) == claimSum(there) {
		return nil
	}
	return m.writeClaim(ctx, host, there)
}

// hostClaim reads a claim of the host.
func (m *member) hostClaim(ctx context.Context, key string) (*corev1.PersistentVolumeClaim, error) {
	if m.o.Dependents == DependentsCached {
		if o, ok, _ := m.hub.claims.GetIndexer().GetByKey(key); ok {
			return o.(*corev1.PersistentVolumeClaim), nil
		}
	}
	namespace, name := cutKey(key)
	return m.hub.client.ClaimsStatus.Get(ctx, namespace, name)
}

// writeClaim binds the host's claim to its volume and writes its status.
func (m *member) writeClaim(ctx context.Context, host, there *corev1.PersistentVolumeClaim) error {
	meta := map[string]any{"annotations": map[string]string{annotationBindCompleted: "yes", annotationBoundByController: "yes"}}
	if m.o.StatusGuard == GuardUID {
		meta["uid"] = host.UID
	}
	body, err := json.Marshal(map[string]any{"metadata": meta, "spec": map[string]any{"volumeName": there.Spec.VolumeName}})
	var now *corev1.PersistentVolumeClaim
	if err == nil {
		now, err = m.hub.client.ClaimsStatus.PatchIn(ctx, host.Namespace, host.Name, body)
	}
	if err == nil {
		now.Status, now.ResourceVersion = *there.Status.DeepCopy(), ""
		_, err = m.hub.client.ClaimsStatus.Update(ctx, now, "status")
	}
	if apierrors.IsNotFound(err) || m.o.StatusGuard == GuardUID && apierrors.IsConflict(err) {
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
func (m *member) makeVolume(ctx context.Context, name string, host *corev1.PersistentVolumeClaim) (bool, error) {
	o, ok, _ := m.volumes.GetIndexer().GetByKey(name)
	if !ok {
		return false, nil
	}
	if m.o.Dependents == DependentsCached {
		if _, there, _ := m.hub.volumes.GetIndexer().GetByKey(name); there {
			return true, nil
		}
	} else if _, err := m.hub.client.Volumes.Get(ctx, "", name); err == nil || !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	_, err := m.hub.client.Volumes.Create(ctx, m.volumeFor(o.(*corev1.PersistentVolume), host))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("make volume %s on the host: %w", name, err)
	}
	return true, nil
}

// volumeFor is a member's volume as the host gets it.
func (m *member) volumeFor(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{Spec: *v.Spec.DeepCopy()}
	out.Name, out.Annotations = v.Name, map[string]string{api.AnnotationOwners: m.name}
	if by := v.Annotations[annotationProvisionedBy]; by != "" {
		out.Annotations[annotationProvisionedBy] = by // so that the host leaves reclaiming to it
	}
	out.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if len(m.byNode) != len(m.leaves) {
		out.Spec.NodeAffinity = nil // it is about nodes that the host does not know
	}
	return out
}

// volumeUp follows a volume of the member: that of a claim of the tree comes to the
// host, and one that is gone goes there too. A volume whose claim has gone is deleted
// as a provisioner would: simulated members have none that hears of it.
func (m *member) volumeUp(ctx context.Context, name string) error {
	o, ok, _ := m.volumes.GetIndexer().GetByKey(name)
	owned := m.ownsAtHost(name)
	if !ok {
		if !owned {
			return nil
		}
		return wrapGone(m.hub.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s on the host", name)
	}
	v := o.(*corev1.PersistentVolume)
	if v.Spec.ClaimRef == nil {
		return nil
	}
	key := v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	if c, ok, _ := m.claims.GetIndexer().GetByKey(key); ok && c.(*corev1.PersistentVolumeClaim).UID == v.Spec.ClaimRef.UID {
		return m.claimUp(ctx, key)
	}
	m.mu.Lock()
	released := m.released[v.Spec.ClaimRef.UID]
	m.mu.Unlock()
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.DeletionTimestamp != nil || !released && !owned {
		return nil
	}
	return wrapGone(m.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s in member %s", name, m.name)
}

// ownsAtHost tells whether the host has a volume that came from this member.
func (m *member) ownsAtHost(name string) bool {
	o, ok, _ := m.hub.volumes.GetIndexer().GetByKey(name)
	return ok && slices.Contains(ownersOf(o.(*corev1.PersistentVolume)), m.name)
}

// wrapGone says what failed, unless the object is gone already.
func wrapGone(err error, format string, a ...any) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(a, err)...)
}

// volumeMade looks again at a volume that the host got while its member lost it.
func (t *Tree) volumeMade(o any) {
	t.eachOwner(o, func(m *member, v *corev1.PersistentVolume) {
		if _, there, _ := m.volumes.GetIndexer().GetByKey(v.Name); !there {
			m.storage.Queue.Add(prefixVolume + v.Name)
		}
	})
}

// volumeGone lets the member's volume go that somebody took from the host.
func (t *Tree) volumeGone(o any) {
	t.eachOwner(o, func(m *member, v *corev1.PersistentVolume) {
		if _, there, _ := m.volumes.GetIndexer().GetByKey(v.Name); there {
			t.copies.Queue.Add(prefixVolume + m.name + "/" + v.Name)
		}
	})
}

// eachOwner calls f with the member that a volume of the host came from, if it has joined.
func (t *Tree) eachOwner(o any, f func(*member, *corev1.PersistentVolume)) {
	v, ok := loop.Last[*corev1.PersistentVolume](o)
	if !ok {
		return
	}
	for _, name := range ownersOf(v) {
		if m := t.leaves.member(name); m != nil {
			f(m, v)
		}
	}
}

// removeVolume deletes a member's volume, MEMBER/NAME, that the host has no more.
func (t *Tree) removeVolume(ctx context.Context, key string) error {
	owner, name := cutKey(key)
	m := t.leaves.member(owner)
	if m == nil {
		return nil
	}
	if _, there, _ := t.hub.volumes.GetIndexer().GetByKey(name); there {
		return nil // it was made again
	}
	return wrapGone(m.client.Volumes.Delete(ctx, "", name, metav1.DeleteOptions{}), "delete volume %s in member %s", name, owner)
}
