package tree

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// What becomes of a claim in a member, and of its volume, comes up to the hub. What has to
// be done for that is decided here, without a clock, a server or a cache.

// claimAction is what is to be done for a claim.
type claimAction string

const (
	claimKeep       claimAction = "leave the claim"
	claimGiveVolume claimAction = "give the hub the volume unless it has it"
	claimBind       claimAction = "give the hub the volume, bind the claim and write its status"
)

// isBoundCopy tells whether a member's claim is the tree's and bound: only then is the hub
// read.
func isBoundCopy(member *corev1.PersistentVolumeClaim) bool {
	return member != nil && isGlobal(member) && member.Status.Phase == corev1.ClaimBound && member.Spec.VolumeName != ""
}

// decideClaim decides for a claim of the hub whose copy in the member is bound; volume is
// the copy's, nil as long as it is not known. The hub gets the volume first, since a claim
// whose volume is not there counts as lost.
func decideClaim(hub, member *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, o *Options) claimAction {
	switch {
	case hub.DeletionTimestamp != nil:
		return claimKeep
	case hub.Spec.VolumeName != "" && hub.Spec.VolumeName != member.Spec.VolumeName:
		return claimKeep // another member's volume is the claim's
	case o.StatusGuard == GuardUID && !isCopyOf(member, hub.UID):
		return claimKeep
	case volume == nil:
		return claimKeep // its event is on its way
	case o.StatusPut == Changed && hub.Spec.VolumeName != "" && claimSum(hub) == claimSum(member):
		return claimGiveVolume
	}
	return claimBind
}

// volumePair is what is known of a volume that a member has, or had.
type volumePair struct {
	member   *corev1.PersistentVolume      // nil: it is gone
	owned    bool                          // the hub has it from this member
	claim    *corev1.PersistentVolumeClaim // of the member, that has the name which the volume refers to
	released bool                          // the claim that it refers to was the tree's, and is gone
}

// volumeAction is what is to be done for a volume.
type volumeAction string

const (
	volumeKeep        volumeAction = "leave the volume"
	volumeClaimUp     volumeAction = "look at its claim"
	volumeDelete      volumeAction = "delete the volume in the member"
	volumeDeleteOnHub volumeAction = "delete the volume on the hub"
)

// decideVolume decides for a volume. One that is gone in the member goes on the hub too. One
// whose claim has gone is deleted as a provisioner would: simulated members have none that
// hears of it.
func (p volumePair) decideVolume() volumeAction {
	switch {
	case p.member == nil && p.owned:
		return volumeDeleteOnHub
	case p.member == nil || p.member.Spec.ClaimRef == nil:
		return volumeKeep
	case p.claim != nil && p.claim.UID == p.member.Spec.ClaimRef.UID:
		return volumeClaimUp
	case p.member.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || p.member.DeletionTimestamp != nil:
		return volumeKeep
	case p.released || p.owned:
		return volumeDelete
	}
	return volumeKeep
}

// claimKey is the key of the claim that a volume refers to.
func claimKey(v *corev1.PersistentVolume) string {
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}

// isOwner tells whether a volume of the hub, nil for none, came from a member.
func isOwner(v *corev1.PersistentVolume, member string) bool {
	return v != nil && slices.Contains(ownersOf(v), member)
}

// hubVolume is a member's volume as the hub gets it.
func hubVolume(owner string, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, nodes bool) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{Spec: *v.Spec.DeepCopy()}
	out.Name, out.Annotations = v.Name, map[string]string{api.AnnotationOwners: owner}
	if by := v.Annotations[annotationProvisionedBy]; by != "" {
		out.Annotations[annotationProvisionedBy] = by // so that the hub leaves reclaiming to it
	}
	out.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if !nodes {
		out.Spec.NodeAffinity = nil // it is about nodes that the hub does not know
	}
	return out
}

// claimSum is a digest of a claim's status, which says nothing of times.
func claimSum(c *corev1.PersistentVolumeClaim) string {
	raw, err := (&corev1.PersistentVolumeClaimStatus{Phase: c.Status.Phase, AccessModes: c.Status.AccessModes, Capacity: c.Status.Capacity}).Marshal()
	return api.Sum(raw, err)
}

func isGlobal(o metav1.Object) bool { return o.GetLabels()[api.LabelGlobal] == "true" }

// isCopyOf tells whether a member's copy was made of the very object of the hub; those
// that do not say so are.
func isCopyOf(there metav1.Object, hub types.UID) bool {
	of := there.GetAnnotations()[api.AnnotationHostUID]
	return of == "" || of == string(hub)
}
