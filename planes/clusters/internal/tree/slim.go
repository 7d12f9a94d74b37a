package tree

import (
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/packed"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// Caches keep of pods and nodes what is used, in types of their own: a corev1.Pod takes
// 1.2 kB however little is in it, and a hundred thousand nodes with their pods took
// gigabytes (experiment 0021). A digest stands for a status of which nothing else is
// asked but whether it is another.

// hubPod is what is kept of a pod of the hub. Its labels and annotations are not in
// the metadata.
type hubPod struct {
	metav1.ObjectMeta

	labels, annotations unique.Handle[packed.Labels] // the pods of a Deployment have the same
	node                string
	phase               corev1.PodPhase
	sum                 string          // a digest of its status
	spec                *corev1.PodSpec // of one that has not begun; nil afterwards
}

// keepHubPod keeps of a pod of the hub what members' pods are made of and what is
// written with a status. Its owners are neither: the API server keeps them.
func keepHubPod(p *corev1.Pod) *hubPod {
	kept := &hubPod{
		ObjectMeta: kernelMeta(p), labels: unique.Make(packed.LabelsOf(p.Labels)), annotations: unique.Make(packed.LabelsOf(p.Annotations)),
		node: p.Spec.NodeName, phase: p.Status.Phase, sum: api.PodSum(&p.Status),
	}
	kept.Finalizers = p.Finalizers
	if strings.HasPrefix(p.Name, p.GenerateName) {
		kept.GenerateName = p.Name[:len(p.GenerateName)]
	} else {
		kept.GenerateName = p.GenerateName
	}
	if p.Status.Phase == corev1.PodPending {
		spec := p.Spec // its address in the pod would keep all of that
		kept.spec = &spec
	}
	return kept
}

// objectMeta is the metadata as an API server has to be sent them.
func (p *hubPod) objectMeta() metav1.ObjectMeta {
	out := *p.ObjectMeta.DeepCopy()
	out.Labels, out.Annotations = p.labels.Value().Map(), p.annotations.Value().Map()
	return out
}

// memberPod is what is kept of a pod of a member.
type memberPod struct {
	metav1.ObjectMeta

	own    bool   // of the tree
	hubUID string // which pod of the hub it was made for
	sum    string // a digest of its status
	status []byte // of the tree's, as it is sent: decoded it is many objects

	node     string
	requests packed.Amounts // of others, which take them of the node
}

// keepMemberPod keeps of the tree's pods the status; of others that have not ended, what
// they request.
func keepMemberPod(p *corev1.Pod) (*memberPod, error) {
	kept := &memberPod{ObjectMeta: kernelMeta(p), own: isOwn(p), hubUID: p.Annotations[api.AnnotationHostUID]}
	kept.node = unique.Make(p.Spec.NodeName).Value() // one text for all pods of a node
	if !kept.own {
		kept.requests = packed.RequestsOf(p)
		return kept, nil
	}
	kept.sum = api.PodSum(&p.Status)
	var err error
	kept.status, err = p.Status.Marshal()
	return kept, err
}

// hubNode is what is kept of a node of the hub.
type hubNode struct {
	metav1.ObjectMeta

	labels packed.Labels
	sum    string // a digest of what the tree writes
}

func keepHubNode(n *corev1.Node) *hubNode {
	return &hubNode{ObjectMeta: kernelMeta(n), labels: packed.LabelsOf(n.Labels), sum: nodeSum(n)}
}

// memberNode is what a leaf shows of a node of a member.
type memberNode struct {
	metav1.ObjectMeta

	labels                packed.Labels
	taints                []corev1.Taint
	ready, unschedulable  bool
	kubelet               string // its version
	capacity, allocatable packed.Amounts
}

func keepMemberNode(n *corev1.Node) *memberNode {
	kept := &memberNode{
		ObjectMeta: kernelMeta(n), labels: packed.LabelsOf(n.Labels), ready: isReady(n), unschedulable: n.Spec.Unschedulable, kubelet: n.Status.NodeInfo.KubeletVersion,
		capacity: packed.AmountsOf(n.Status.Capacity), allocatable: packed.AmountsOf(n.Status.Allocatable),
	}
	for _, t := range n.Spec.Taints {
		if !isState(&t) {
			kept.taints = append(kept.taints, t)
		}
	}
	return kept
}

// keepCopy keeps of a member's slice of which service it is.
func keepCopy(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{ObjectMeta: slim.Named(s)}
	kept.Labels = s.Labels
	return kept
}

// kernelMeta is of metadata what caches and calls need.
func kernelMeta(o metav1.Object) metav1.ObjectMeta {
	kept := slim.Named(o)
	kept.DeletionTimestamp = o.GetDeletionTimestamp()
	return kept
}

// isOwn tells whether a member's pod is the tree's.
func isOwn(p *corev1.Pod) bool { return p.Labels[api.LabelPod] == "true" }

// isState tells whether a taint says how a node is: each cluster sets these itself.
func isState(t *corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// nodeSum is a digest of what a tree writes of a node, without times, and without the
// taints by which the hub says how the node is.
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
