package members

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
)

// hostPod is a pod of the host, memberPod one of a member that is that of the host.
func hostPod(uid string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p" + uid, UID: types.UID(uid), ResourceVersion: "1"}, Status: corev1.PodStatus{Phase: phase}}
}

func memberPod(uid string, phase corev1.PodPhase) *pod {
	p := hostPod("", phase)
	p.Name, p.Annotations = "p"+uid, map[string]string{api.AnnotationHostUID: uid}
	return keepPod(p)
}

// TestInventory holds each way in which a pod of the host and those of members can differ.
func TestInventory(t *testing.T) {
	var v inventory
	v.addPods("a", []*pod{memberPod("1", corev1.PodRunning), memberPod("2", corev1.PodPending), memberPod("3", corev1.PodRunning), memberPod("9", corev1.PodRunning)})
	v.addPods("b", []*pod{memberPod("3", corev1.PodRunning), memberPod("9", corev1.PodRunning)})
	var got []string
	note := func(d agree.Difference) { got = append(got, fmt.Sprint(d.How, " ", d.Object, " ", d.Where)) }
	for uid, phase := range map[string]corev1.PodPhase{"1": corev1.PodRunning, "2": corev1.PodRunning, "3": corev1.PodRunning, "4": corev1.PodPending, "5": corev1.PodSucceeded} {
		if d, differs := v.comparePod(keepPod(hostPod(uid, phase))); differs {
			note(d)
		}
	}
	for _, d := range v.remainingPods() {
		note(d)
	}
	slices.Sort(got)
	want := []string{"doubled n/p3 [a b]", "extra n/p9 [a]", "extra n/p9 [b]", "missing n/p4 []", "unequal n/p2 [a]"}
	if !slices.Equal(got, want) || v.count != 6 {
		t.Errorf("%d pods: %q\nwant 6: %q", v.count, got, want)
	}
}
