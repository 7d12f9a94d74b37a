package fleet_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

const classPath = "/apis/storage.k8s.io/v1/storageclasses/windtunnel"

func claimPath(namespace string) string {
	return "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims/c"
}

// withVolumes is a server with what the set volumes needs, and a fleet's options that
// play it in a cluster of others.
func withVolumes(t *testing.T) (*apitest.Server, fleet.Options) {
	t.Helper()
	s := apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, apitest.Resource{Version: "v1", Plural: "nodes", Kind: "Node"},
		apitest.Resource{Version: "v1", Plural: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true},
		apitest.Resource{Version: "v1", Plural: "persistentvolumes", Kind: "PersistentVolume"},
		apitest.Resource{Version: "storage.k8s.io/v1", Plural: "storageclasses", Kind: "StorageClass"},
	)
	set := repotest.Must(builtin.Sets([]string{"fast", "volumes"}, "."))(t)
	m := repotest.Must(machine.Compile(set.Stages))(t)
	return s, fleet.Options{
		Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: 1, Name: "f", Stages: m, Objects: set.Others,
		Stamp: object.Stamp{Run: "r1", Fleet: "f"}, Namespaces: func(name string) bool { return name == "mine" },
	}
}

// TestTaint starts a fleet in a cluster of others: its nodes are for pods of the run,
// what it makes is stamped and nobody's default, and claims of others stay theirs.
func TestTaint(t *testing.T) {
	s, o := withVolumes(t)
	class, size := "windtunnel", corev1.ResourceList{}
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}},
	}
	s.Add(claimPath("theirs"), claim)
	before := s.Get(claimPath("theirs")).GetResourceVersion()
	f := repotest.Must(fleet.Start(t.Context(), config(2), o))(t)
	t.Cleanup(func() { _ = f.Close() })
	ready(t, f) // though the nodes have a taint
	for _, n := range s.Nodes() {
		if n.Labels[object.RunLabel] != "r1" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0] != (corev1.Taint{Key: object.FleetLabel, Value: "f", Effect: corev1.TaintEffectNoSchedule}) {
			t.Errorf("%s: %v, %v", n.Name, n.Labels, n.Spec.Taints)
		}
	}
	if c := s.Get(classPath); c == nil || c.GetLabels()[object.RunLabel] != "r1" || len(c.GetAnnotations()) != 0 {
		t.Errorf("class %v", c)
	}
	s.Add(claimPath("mine"), claim)
	repotest.Eventually(t, "a volume for the run's claim", func() bool { return len(s.Objects("/api/v1/persistentvolumes")) == 1 })
	if v := s.Objects("/api/v1/persistentvolumes")[0]; v.GetLabels()[object.RunLabel] != "r1" {
		t.Errorf("volume %v", v.GetLabels())
	}
	if now := s.Get(claimPath("theirs")).GetResourceVersion(); now != before {
		t.Error("somebody else's claim was changed")
	}
}

// TestForeignClass has a StorageClass of the set's name already.
func TestForeignClass(t *testing.T) {
	s, o := withVolumes(t)
	s.Add(classPath, map[string]any{"provisioner": "theirs"})
	if _, err := fleet.Start(t.Context(), config(1), o); !errors.Is(err, fleet.ErrForeignObject) {
		t.Error(err)
	}
	if c := s.Get(classPath); c.Object["provisioner"] != "theirs" || len(c.GetLabels()) != 0 {
		t.Errorf("class %v", c.Object)
	}
}
