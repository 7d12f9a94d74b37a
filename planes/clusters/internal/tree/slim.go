package tree

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// Caches keep of objects what is used: a hundred thousand nodes and their pods would
// take gigabytes otherwise. A digest stands for a status of which nothing else is asked
// but whether it is another.

// slimmed marks what went through here: client-go may hand an object in twice.
const slimmed = "slimmed"

// slimHostPod keeps the spec of a pod that has not begun, and of the status a digest
// in its reason.
func slimHostPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Status.NominatedNodeName == slimmed {
		return o, nil
	}
	p.ManagedFields = nil
	if p.Status.Phase != corev1.PodPending {
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
	}
	p.Status = corev1.PodStatus{Phase: p.Status.Phase, Reason: api.PodSum(&p.Status), NominatedNodeName: slimmed}
	return p, nil
}

// slimMemberPod keeps the status; of the specs of pods that are not the tree's, what
// they request.
func slimMemberPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	p.ManagedFields = nil
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName}
	if !isOwn(p) {
		for _, c := range p.Spec.Containers {
			spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests}})
		}
	}
	p.Spec = spec
	return p, nil
}

// slimHostNode keeps a digest of what the tree writes, in the phase.
func slimHostNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok || n.Status.NodeInfo.MachineID == slimmed {
		return o, nil
	}
	sum := nodeSum(n)
	n.ManagedFields, n.Spec = nil, corev1.NodeSpec{}
	n.Status = corev1.NodeStatus{Phase: corev1.NodePhase(sum), NodeInfo: corev1.NodeSystemInfo{MachineID: slimmed}}
	return n, nil
}

// slimMemberNode takes out what no leaf shows.
func slimMemberNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields, n.Status.Images = nil, nil
	}
	return o, nil
}

// slimObject takes out what nobody reads.
func slimObject(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// isOwn tells whether a member's pod is the tree's.
func isOwn(p *corev1.Pod) bool { return p.Labels[api.LabelPod] == "true" }

// isState tells whether a taint says how a node is: each cluster sets these itself.
func isState(t *corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// nodeSum is a digest of what a tree writes of a node, without times, and without the
// taints by which the host says how the node is.
func nodeSum(n *corev1.Node) string {
	c := corev1.Node{Status: corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}}
	for _, one := range n.Spec.Taints {
		if !isState(&one) {
			c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: one.Key, Value: one.Value, Effect: one.Effect})
		}
	}
	for _, one := range n.Status.Conditions {
		c.Status.Conditions = append(c.Status.Conditions, corev1.NodeCondition{Type: one.Type, Status: one.Status, Reason: one.Reason})
	}
	raw, err := c.Marshal()
	return api.Sum(raw, err)
}
