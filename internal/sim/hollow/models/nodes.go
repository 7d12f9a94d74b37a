package models

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// Populate creates the nodes that a cluster begins with: ready, as kubelets make them,
// with room for what a fleet's nodes have room for.
func Populate(b *backend.Backend, n int) error {
	nodes := b.Registry().Kinds().Find("", "v1", "nodes")
	for i := range n {
		o := readyNode(fmt.Sprintf("node-%06d", i), registry.TimeOf(b.Now()))
		if _, err := b.Create(registry.Write{Target: registry.Target{Kind: nodes}}, o); err != nil {
			return err
		}
	}
	return nil
}

func readyNode(name string, now metav1.Time) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}}}
	n.Status = corev1.NodeStatus{
		Phase: corev1.NodeRunning, Capacity: room, Allocatable: room,
		NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: kind.Version},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: addresses{}.Host([]byte(name)).String()}, {Type: corev1.NodeHostName, Address: name},
		},
	}
	for _, is := range render.NodeConditions() {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(is.Type), Status: corev1.ConditionStatus(is.Status), Reason: is.Reason, Message: is.Message,
			LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return n
}
