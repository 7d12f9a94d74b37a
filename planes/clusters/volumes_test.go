package clusters_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// claim makes one on the host, of the class for which members' models provision.
func (r *rig) claim(name string) types.UID {
	r.t.Helper()
	class := "windtunnel"
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageClassName, c.Spec.AccessModes = &class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	made := repotest.Must(r.host.CoreV1().PersistentVolumeClaims("default").Create(r.t.Context(), c, metav1.CreateOptions{}))(r.t)
	return made.UID
}

func (r *rig) deleteClaim(name string) {
	r.t.Helper()
	repotest.NoError(r.t, r.host.CoreV1().PersistentVolumeClaims("default").Delete(r.t.Context(), name, metav1.DeleteOptions{}))
}

// withClaim lets a pod need a claim.
func withClaim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}

// bound waits until a claim of the host is bound to a volume that the host has, and
// returns that.
func (r *rig) bound(name string, uid types.UID) (v *corev1.PersistentVolume) {
	r.t.Helper()
	repotest.Eventually(r.t, "claim "+name+" is bound", func() bool {
		c, err := r.host.CoreV1().PersistentVolumeClaims("default").Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil || c.UID != uid || c.Status.Phase != corev1.ClaimBound || c.Status.Capacity.Storage().String() != "1Gi" {
			return false
		}
		v, err = r.host.CoreV1().PersistentVolumes().Get(r.t.Context(), c.Spec.VolumeName, metav1.GetOptions{})
		return err == nil
	})
	return v
}

// stored counts the claims and volumes of a cluster.
func (r *rig) stored(c kubernetes.Interface) (claims, volumes int) {
	r.t.Helper()
	all := repotest.Must(c.CoreV1().PersistentVolumeClaims("").List(r.t.Context(), metav1.ListOptions{}))(r.t)
	vs := repotest.Must(c.CoreV1().PersistentVolumes().List(r.t.Context(), metav1.ListOptions{}))(r.t)
	return len(all.Items), len(vs.Items)
}

// TestVolumes holds that claims come to the members of their pods, are provisioned there,
// and come back bound with their volumes; what that costs the host for each pod; and that
// nothing is left on either side of a claim that is deleted.
func TestVolumes(t *testing.T) {
	const pods = 4
	planetest.Each(t, map[string]int{tree.DependentsLive: pods, tree.DependentsCached: 1}, func(t *testing.T, how string, want int) {
		r := newRig(t, shape{members: 2, nodes: 1, mode: api.LeafNode})
		m := r.manage(func(o *tree.Options) { calm(o); o.Dependents = how })
		r.joined(m)
		uid := r.claim("data")
		for i := range pods { // each when the one before runs, and caches know of its copies
			r.create(pod(fmt.Sprint("p", i), on("m0-n0"), withClaim("data")))
			r.run(i + 1)
			m.rests()
			r.bound("data", uid)
			r.agree()
		}
		if got := m.hostCalls("UPDATE", "persistentvolumeclaims"); got != want {
			t.Errorf("the host's claim is written %d times for %d pods, want %d", got, pods, want)
		}
		if got := m.memberCalls("CREATE", "persistentvolumeclaims"); got != 1 {
			t.Errorf("the claim is made %d times in members, want 1", got)
		}
		v := r.bound("data", uid)
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != uid || v.Annotations[api.AnnotationOwners] != "m0" {
			t.Errorf("the host's volume is %+v of %v", v.Spec.ClaimRef, v.Annotations)
		}
		c, err := r.members[0].CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil || c.Labels[api.LabelGlobal] != "true" || c.Spec.VolumeName != v.Name {
			t.Errorf("the member's claim is %v, %v", c, err)
		}
		if claims, volumes := r.stored(r.members[1]); claims != 0 || volumes != 0 {
			t.Errorf("a member without the pod has %d claims and %d volumes", claims, volumes)
		}
		for i := range pods {
			r.delete(fmt.Sprint("p", i))
		}
		r.run(0)
		r.deleteClaim("data")
		for name, c := range map[string]kubernetes.Interface{"the host": r.host, "the member": r.members[0]} {
			repotest.Eventually(t, name+" has nothing left", func() bool {
				claims, volumes := r.stored(c)
				return claims == 0 && volumes == 0
			})
		}
		r.agree()
	})
}

// TestMissedDeletionOfDependents holds what is left in members of what pods needed when
// the host's was deleted while no manager ran.
func TestMissedDeletionOfDependents(t *testing.T) {
	planetest.Each(t, map[string]int{"default": 3, "improved": 0}, func(t *testing.T, name string, left int) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		first := r.manage(presets()[name])
		r.joined(first)
		r.settings()
		uid := r.claim("data")
		r.create(pod("p", withSettings, withClaim("data")))
		r.run(1)
		r.bound("data", uid)
		r.delete("p")
		r.run(0)
		r.agree()
		first.stop()
		r.forgets()
		r.deleteClaim("data")
		m := r.manage(presets()[name])
		r.joined(m)
		repotest.Eventually(t, "it has looked at claim and volume", func() bool { return m.worked("storage") >= 2 && m.idle() })
		repotest.Eventually(t, "what is left is told", func() bool { n, _ := r.differences(); return n == left })
		want := 0
		if left > 0 {
			want = 1
		}
		repotest.Eventually(t, "claims and volumes are left as told", func() bool {
			claims, volumes := r.stored(r.members[0])
			_, atHost := r.stored(r.host)
			return claims == want && volumes == want && atHost == want
		})
	})
}

// TestMissedChangeOfDependents holds what members have of a ConfigMap and a Secret that
// the host changed while no manager ran: the old ones, unless dependents are cached.
func TestMissedChangeOfDependents(t *testing.T) {
	planetest.Each(t, map[string]bool{"default": false, "improved": true}, func(t *testing.T, name string, follows bool) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		first := r.manage(presets()[name])
		r.joined(first)
		r.settings()
		r.create(pod("p", withSettings))
		r.run(1)
		r.agree()
		first.stop()
		r.changeSettings("debug", "y")
		m := r.manage(presets()[name])
		r.joined(m)
		shows := func(level, key string) bool {
			c, err := r.members[0].CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
			s, err2 := r.members[0].CoreV1().Secrets("default").Get(t.Context(), "secret", metav1.GetOptions{})
			return err == nil && err2 == nil && c.Data["level"] == level && string(s.Data["key"]) == key
		}
		if follows {
			repotest.Eventually(t, "the member has them as they are", func() bool { return shows("debug", "y") })
		} else if m.rests(); !shows("info", "x") {
			t.Error("the member has not what it had")
		}
		r.changeSettings("warn", "z")
		repotest.Eventually(t, "the member follows the next change", func() bool { return shows("warn", "z") })
	})
}

// changeSettings writes another value into the ConfigMap and the Secret of settings.
func (r *rig) changeSettings(level, key string) {
	r.t.Helper()
	ctx := r.t.Context()
	maps, secrets := r.host.CoreV1().ConfigMaps("default"), r.host.CoreV1().Secrets("default")
	c := repotest.Must(maps.Get(ctx, "settings", metav1.GetOptions{}))(r.t)
	c.Data["level"] = level
	repotest.Must(maps.Update(ctx, c, metav1.UpdateOptions{}))(r.t)
	s := repotest.Must(secrets.Get(ctx, "secret", metav1.GetOptions{}))(r.t)
	s.Data["key"] = []byte(key)
	repotest.Must(secrets.Update(ctx, s, metav1.UpdateOptions{}))(r.t)
}
