package members

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// claim is what is kept of a claim.
type claim struct {
	metav1.ObjectMeta // its name, UID and version alone

	copied bool // it is a copy of the host's
}

func keepClaim(c *corev1.PersistentVolumeClaim) *claim {
	return &claim{slim.Named(c), c.Labels[api.LabelGlobal] == "true"}
}

// volume is what is kept of a volume.
type volume struct {
	objectName

	owner     string // of the host's: the member that it came from
	claim     string // key of the claim that it is for; empty: of none
	claimUID  types.UID
	isDeleted bool // with its claim
}

func keepVolume(v *corev1.PersistentVolume) *volume {
	kept := &volume{objectName: *keepName(v), owner: v.Annotations[api.AnnotationOwners], isDeleted: v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete}
	if ref := v.Spec.ClaimRef; ref != nil {
		kept.claim, kept.claimUID = ref.Namespace+"/"+ref.Name, ref.UID
	}
	return kept
}

// leftStorage are claims that a member has copies of and the host does not have, volumes
// of the member that should have gone with their claim, and volumes of the host that the
// member they came from does not have.
func (w *watch) leftStorage(member string, s *side) (out []agree.Difference) {
	tell := func(object string) {
		out = append(out, agree.Difference{How: copies, Object: object, Where: []string{member}})
	}
	for _, c := range slim.All[*claim](s.claims) {
		if key := c.Namespace + "/" + c.Name; c.copied && !slim.Has(w.own.claims, key) {
			tell("claim " + key)
		}
	}
	for _, v := range slim.All[*volume](s.volumes) {
		if v.claim == "" || !v.isDeleted {
			continue
		}
		if c := slim.Get[*claim](s.claims, v.claim); c == nil || c.UID != v.claimUID {
			tell("volume " + v.Name)
		}
	}
	for _, v := range slim.All[*volume](w.own.volumes) {
		if v.owner == member && !slim.Has(s.volumes, v.Name) {
			tell("volume " + v.Name + " of the host")
		}
	}
	return out
}
