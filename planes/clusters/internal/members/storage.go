package members

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// slimClaim keeps of a claim its name and whether it is a copy.
func slimClaim(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{ObjectMeta: named(c)}
	out.UID, out.Labels = c.UID, map[string]string{api.LabelGlobal: c.Labels[api.LabelGlobal]}
	return out
}

// slimVolume keeps of a volume its name, which claim it is for, whether it goes with it,
// and, of the host's, where it came from.
func slimVolume(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	out := &corev1.PersistentVolume{ObjectMeta: named(v)}
	out.Annotations = map[string]string{api.AnnotationOwners: v.Annotations[api.AnnotationOwners]}
	out.Spec.PersistentVolumeReclaimPolicy = v.Spec.PersistentVolumeReclaimPolicy
	if ref := v.Spec.ClaimRef; ref != nil {
		out.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	}
	return out
}

// leftStorage are claims that a member has copies of and the host does not have, volumes
// of the member that should have gone with their claim, and volumes of the host that the
// member they came from does not have.
func (w *watch) leftStorage(member string, s *side) (out []Difference) {
	claims := map[string]metav1.Object{}
	for _, o := range s.claims.GetIndexer().List() {
		c := o.(*corev1.PersistentVolumeClaim)
		key := c.Namespace + "/" + c.Name
		claims[key] = c
		if c.Labels[api.LabelGlobal] != "true" {
			continue
		}
		if _, there, _ := w.claims.GetIndexer().GetByKey(key); !there {
			out = append(out, Difference{copies, "claim " + key, []string{member}})
		}
	}
	for _, o := range s.volumes.GetIndexer().List() {
		v := o.(*corev1.PersistentVolume)
		ref := v.Spec.ClaimRef
		if ref == nil || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		if c := claims[ref.Namespace+"/"+ref.Name]; c == nil || c.GetUID() != ref.UID {
			out = append(out, Difference{copies, "volume " + v.Name, []string{member}})
		}
	}
	for _, o := range w.volumes.GetIndexer().List() {
		v := o.(*corev1.PersistentVolume)
		if v.Annotations[api.AnnotationOwners] != member {
			continue
		}
		if _, there, _ := s.volumes.GetIndexer().GetByKey(v.Name); !there {
			out = append(out, Difference{copies, "volume " + v.Name + " of the host", []string{member}})
		}
	}
	return out
}
