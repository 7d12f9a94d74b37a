package hub

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
)

// TestLastSent holds that an edge has what it was sent though a new status came, however
// often that is asked, and has not a change of what it acts on until it is sent that.
func TestLastSent(t *testing.T) {
	k := key{node: "edge-0", kind: "pod", namespace: "default", name: "p", uid: "u"}
	pod := func(version, image string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", ResourceVersion: version},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
		}
	}
	last := newLastSent(Options{PodFilter: FilterSpec})
	tell := func(p *corev1.Pod) {
		last.setSent(&outgoing{key: k, version: parseVersion(p.ResourceVersion), sum: api.Sum(p)})
	}
	for i, step := range []struct {
		pod  *corev1.Pod
		tell bool
		want bool
	}{
		{pod: pod("7", "a"), want: false},
		{pod: pod("7", "a"), tell: true, want: true},
		{pod: pod("8", "a"), want: true},
		{pod: pod("8", "a"), want: true},
		{pod: pod("9", "b"), want: false},
		{pod: pod("9", "b"), want: false},
		{pod: pod("9", "b"), tell: true, want: true},
		{pod: pod("10", "a"), want: false},
	} {
		if step.tell {
			tell(step.pod)
		}
		repotest.Equal(t, last.hasSent(k, step.pod), step.want, "step %d, version %s: has it", i, step.pod.ResourceVersion)
	}
	last.forgetObject(k)
	if last.hasSent(k, pod("10", "a")) {
		t.Error("has what was forgotten")
	}
}

// TestHolders holds that a store names the nodes that have something, and no others, and
// that each has its own.
func TestHolders(t *testing.T) {
	s := &localStore{versions: map[string]map[key]uint64{}}
	one, two := key{node: "edge-0", uid: "a"}, key{node: "edge-1", uid: "b"}
	for _, k := range []key{one, two} {
		repotest.NoError(t, s.recordVersion(t.Context(), k, 7))
	}
	if got := s.keysOf("edge-1"); len(got) != 1 || got[0] != two || len(s.keysOf("")) != 2 || len(s.nodesWithObjects()) != 2 {
		t.Errorf("edge-1 has %v, all have %v, who has something: %v", got, s.keysOf(""), s.nodesWithObjects())
	}
	repotest.NoError(t, s.recordDeleted(t.Context(), one))
	if got := s.nodesWithObjects(); len(got) != 1 || got[0] != "edge-1" {
		t.Errorf("when edge-0 has nothing any more: %v have something", got)
	}
}
