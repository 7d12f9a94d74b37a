package tree

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
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

	labels, annotations unique.Handle[packed] // the pods of a Deployment have the same
	node                string
	phase               corev1.PodPhase
	sum                 string          // a digest of its status
	spec                *corev1.PodSpec // of one that has not begun; nil afterwards
}

// keepHubPod keeps of a pod of the hub what members' pods are made of and what is
// written with a status. Its owners are neither: the API server keeps them.
func keepHubPod(p *corev1.Pod) *hubPod {
	kept := &hubPod{
		ObjectMeta: kernelMeta(p), labels: unique.Make(packMap(p.Labels)), annotations: unique.Make(packMap(p.Annotations)),
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
	out.Labels, out.Annotations = p.labels.Value().unpackMap(), p.annotations.Value().unpackMap()
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
	requests amounts // of others, which take them of the node
}

// keepMemberPod keeps of the tree's pods the status; of others that have not ended, what
// they request.
func keepMemberPod(p *corev1.Pod) (*memberPod, error) {
	kept := &memberPod{ObjectMeta: kernelMeta(p), own: isOwn(p), hubUID: p.Annotations[api.AnnotationHostUID]}
	kept.node = unique.Make(p.Spec.NodeName).Value() // one text for all pods of a node
	if !kept.own {
		kept.requests = requestsOf(p)
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

	labels packed
	sum    string // a digest of what the tree writes
}

func keepHubNode(n *corev1.Node) *hubNode {
	return &hubNode{ObjectMeta: kernelMeta(n), labels: packMap(n.Labels), sum: nodeSum(n)}
}

// memberNode is what a leaf shows of a node of a member.
type memberNode struct {
	metav1.ObjectMeta

	labels                packed
	taints                []corev1.Taint
	ready, unschedulable  bool
	kubelet               string // its version
	capacity, allocatable amounts
}

func keepMemberNode(n *corev1.Node) *memberNode {
	kept := &memberNode{
		ObjectMeta: kernelMeta(n), labels: packMap(n.Labels), ready: isReady(n), unschedulable: n.Spec.Unschedulable, kubelet: n.Status.NodeInfo.KubeletVersion,
		capacity: amountsOf(n.Status.Capacity), allocatable: amountsOf(n.Status.Allocatable),
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

// packed are labels or annotations as one text, each name and value after its length. A
// map takes 312 bytes for the first of them.
type packed string

func packMap(m map[string]string) packed {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, text := range []string{name, m[name]} {
			out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		}
	}
	return packed(out)
}

// eachPair are the names and values.
func (p packed) eachPair() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		rest := string(p)
		next := func() string {
			length, n := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen64)]))
			text := rest[n : n+int(length)]
			rest = rest[n+len(text):]
			return text
		}
		for rest != "" {
			if name := next(); !yield(name, next()) {
				return
			}
		}
	}
}

func (p packed) unpackMap() map[string]string { return maps.Collect(p.eachPair()) }

// Lookup, Has and Get make them labels.Labels.
func (p packed) Lookup(label string) (value string, ok bool) {
	for name, value := range p.eachPair() {
		if name == label {
			return value, true
		}
	}
	return "", false
}

// Has tells whether there is a label.
func (p packed) Has(label string) bool { _, ok := p.Lookup(label); return ok }

// Get returns the value of a label, empty without one.
func (p packed) Get(label string) string { value, _ := p.Lookup(label); return value }

// amounts are quantities by name, without the 600 bytes of a map.
type amounts []amount

type amount struct {
	name corev1.ResourceName
	resource.Quantity
}

func amountsOf(list corev1.ResourceList) amounts {
	out := make(amounts, 0, len(list))
	for name, q := range list {
		out = append(out, amount{name, q})
	}
	return out
}

// requestsOf is what a pod takes of its node: nothing when it has ended.
func requestsOf(p *corev1.Pod) (out amounts) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	for i := range p.Spec.Containers {
		out = append(out, amountsOf(p.Spec.Containers[i].Resources.Requests)...)
	}
	return slices.Clip(out)
}

// addTo adds quantities so many times.
func (a amounts) addTo(to corev1.ResourceList, times int) {
	for _, one := range a {
		sum := to[one.name].DeepCopy()
		if times < 0 {
			sum.Sub(one.Quantity)
		} else {
			sum.Add(one.Quantity)
		}
		to[one.name] = sum
	}
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
