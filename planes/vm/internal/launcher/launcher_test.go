package launcher_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

func instance(t *testing.T, spec string) *api.Instance {
	t.Helper()
	vmi := &api.Instance{ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "n", UID: "u-1", Labels: map[string]string{"windtunnel.dev/group": "g", api.LabelNode: "old"}}}
	repotest.NoError(t, json.Unmarshal([]byte(spec), &vmi.Spec))
	return vmi
}

func TestOverhead(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		ratio      float64
		mebi       float64
	}{
		// The figures are those of the formula in docs, for a guest of 90 Mi: 288 Mi + 90/512 Mi.
		{"cirros", `{"domain":{"resources":{"requests":{"memory":"90Mi"}}}}`, 1, 288 + 90.0/512},
		{"twice", `{"domain":{"resources":{"requests":{"memory":"90Mi"}}}}`, 2, 2 * (288 + 90.0/512)},
		{"four processors", `{"domain":{"cpu":{"cores":2,"sockets":2},"memory":{"guest":"512Mi"}}}`, 1, 288 + 3*8 + 1},
		{"no video", `{"domain":{"devices":{"autoattachGraphicsDevice":false}}}`, 1, 256},
		{"tpm", `{"domain":{"devices":{"tpm":{}}}}`, 1, 288 + 53},
		{"guaranteed", `{"domain":{"resources":{"limits":{"memory":"512Mi","cpu":"1"}}}}`, 1, 288 + 1 + 100},
	} {
		vmi := instance(t, c.spec)
		if got := float64(launcher.Overhead(&vmi.Spec, c.ratio)) / (1 << 20); got < c.mebi-0.01 || got > c.mebi+0.01 {
			t.Errorf("%s: %.2f Mi, want %.2f", c.name, got, c.mebi)
		}
	}
}

func options() launcher.Options {
	return launcher.Options{Image: "i", OverheadRatio: 1, QEMUTimeout: 240 * time.Second}
}

func TestPodAsksForWhatTheInstanceNeeds(t *testing.T) {
	vmi := instance(t, `{"domain":{"resources":{"requests":{"memory":"90Mi","cpu":"100m"}}},"nodeSelector":{"a":"b"},
		"volumes":[{"name":"root","containerDisk":{"image":"cirros"}},{"name":"data","emptyDisk":{}}]}`)
	pod := launcher.Pod(vmi, options())
	c := pod.Spec.Containers[0]
	repotest.Equal(t, c.Resources.Requests.Memory().Value(), 90<<20+launcher.Overhead(&vmi.Spec, 1), "memory")
	for _, d := range []corev1.ResourceName{api.ResourceKVM, api.ResourceTun, api.ResourceVhostNet} {
		if q := c.Resources.Limits[d]; q.Value() != 1 {
			t.Errorf("%s: %v", d, q)
		}
	}
	if q := c.Resources.Requests.Cpu().MilliValue(); q != 100 {
		t.Errorf("cpu %dm", q)
	}
	if len(pod.Spec.Containers) != 2 || pod.Spec.Containers[1].Name != "volumeroot" {
		t.Errorf("containers: %v", pod.Spec.Containers)
	}
	if pod.Spec.NodeSelector["a"] != "b" || pod.Spec.NodeSelector[api.LabelSchedulable] != "true" {
		t.Errorf("node selector: %v", pod.Spec.NodeSelector)
	}
	if pod.Labels["windtunnel.dev/group"] != "g" || pod.Labels[api.LabelCreatedBy] != "u-1" || pod.Labels[api.LabelNode] != "" {
		t.Errorf("labels: %v", pod.Labels)
	}
	if o := metav1.GetControllerOf(pod); o == nil || o.UID != "u-1" || o.Kind != "VirtualMachineInstance" {
		t.Errorf("owner: %v", o)
	}
	if !strings.Contains(strings.Join(c.Command, " "), "--qemu-timeout 240s") {
		t.Errorf("command: %v", c.Command)
	}
}

func TestNamesFollowFromUIDs(t *testing.T) {
	vmi := instance(t, `{}`)
	a := launcher.Name(vmi, "")
	if a != launcher.Name(vmi, "") || !strings.HasPrefix(a, "virt-launcher-v-") {
		t.Errorf("name %s", a)
	}
	other := vmi.Copy()
	other.UID = "u-2"
	if launcher.Name(other, "") == a || launcher.Name(vmi, "m") == a {
		t.Error("another instance or a migration has the same pod")
	}
	vmi.Name = strings.Repeat("x", 200)
	if n := launcher.Name(vmi, ""); len(n) > 63 {
		t.Errorf("%d characters", len(n))
	}
}

func TestTargetIsElsewhere(t *testing.T) {
	vmi := instance(t, `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
		{"matchExpressions":[{"key":"a","operator":"Exists"}]},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]}}}}`)
	vmi.Status.NodeName = "node-1"
	pod := launcher.Target(vmi, &api.Migration{ObjectMeta: metav1.ObjectMeta{UID: "m"}}, options())
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 2 {
		t.Fatalf("terms: %v", terms)
	}
	for _, term := range terms {
		if len(term.MatchExpressions) != 1 || len(term.MatchFields) != 1 || term.MatchFields[0].Values[0] != "node-1" {
			t.Errorf("term: %v", term)
		}
	}
	if len(vmi.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields) != 0 {
		t.Error("the instance itself was changed")
	}
}

func TestReady(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "compute", State: running}, {Name: "volumeroot", Ready: true},
	}}}
	if !launcher.Ready(pod) {
		t.Error("a running pod is not ready")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"pending":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"deleted":   func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
		"unbound":   func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"waiting":   func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} },
		"no disk":   func(p *corev1.Pod) { p.Status.ContainerStatuses[1].Ready = false },
		"no status": func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
	} {
		p := pod.DeepCopy()
		change(p)
		if launcher.Ready(p) {
			t.Errorf("%s: ready", name)
		}
	}
	if launcher.Ready(nil) {
		t.Error("no pod is ready")
	}
}
