package tree

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/packed"
)

// What a leaf shows on the hub, and what of it has to be written, is decided here: without
// a clock, a server or a cache.

// view is what is known of a member's nodes and pods at a moment.
type view struct {
	nodes  []*memberNode
	byName map[string]*memberNode
	taken  map[string]packed.Amounts // by pods that are not the tree's, by node
}

func newView(nodes []*memberNode) *view {
	v := &view{nodes: nodes, byName: make(map[string]*memberNode, len(nodes)), taken: map[string]packed.Amounts{}}
	for _, n := range nodes {
		v.byName[n.Name] = n
	}
	return v
}

func (v *view) addPods(pods []corev1.Pod) {
	for i := range pods {
		if p := &pods[i]; !isOwn(p) {
			v.taken[p.Spec.NodeName] = append(v.taken[p.Spec.NodeName], packed.RequestsOf(p)...)
		}
	}
}

// nodesSelected selects the nodes that a leaf stands for, at a server.
func (l *leaf) nodesSelected() (o metav1.ListOptions) {
	switch l.mode {
	case api.LeafNode:
		o.FieldSelector = "metadata.name=" + l.model.NodeSelector.NodeName
	case api.LeafParty:
		o.LabelSelector = metav1.FormatLabelSelector(l.model.NodeSelector.LabelSelector)
	}
	return o
}

// resourcesKey is what an event of a member's pod puts into the queue of resources, empty
// for nothing: its node. A burst of pods of one node is one key. Kosmos counts every bound
// pod; only those that are not the tree's take resources.
func resourcesKey(p *memberPod, o *Options) string {
	if o.NodePatch == Changed && p.own {
		return ""
	}
	return p.node
}

// changesResources tells whether Kosmos looks at a member's node again after a change.
func changesResources(was, is *memberNode) bool {
	return was.ready != is.ready || was.unschedulable != is.unschedulable || !was.allocatable.Equal(is.allocatable)
}

// nodesOf returns the nodes that a leaf stands for.
func (v *view) nodesOf(l *leaf) []*memberNode {
	switch l.mode {
	case api.LeafNode:
		if n := v.byName[l.model.NodeSelector.NodeName]; n != nil {
			return []*memberNode{n}
		}
		return nil
	case api.LeafParty:
		selector, err := metav1.LabelSelectorAsSelector(l.model.NodeSelector.LabelSelector)
		if err != nil {
			return nil // it selects nothing
		}
		var out []*memberNode
		for _, n := range v.nodes {
			if selector.Matches(n.labels) {
				out = append(out, n)
			}
		}
		return out
	}
	return v.nodes
}

// desiredNode returns a leaf of a member as the hub is to have it.
func desiredNode(owner string, l *leaf, v *view, now time.Time) *corev1.Node {
	n := &corev1.Node{}
	n.Name = l.node
	n.Labels = map[string]string{
		api.LabelNode: "true", corev1.LabelHostname: l.node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "kubernetes.io/role": "agent",
	}
	n.Annotations = map[string]string{api.AnnotationOwnedBy: owner}
	if l.mode == api.LeafAll {
		n.Annotations["leafNodeMode"] = "one2cluster"
	}
	n.Spec.Taints = []corev1.Taint{{Key: api.LabelNode, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	n.Spec.Taints = append(n.Spec.Taints, l.model.Taints...)
	nodes := v.nodesOf(l)
	if l.mode == api.LeafNode && len(nodes) == 1 {
		for name, value := range nodes[0].labels.Each() {
			if n.Labels[name] == "" {
				n.Labels[name] = value
			}
		}
		n.Spec.Taints = append(n.Spec.Taints, nodes[0].taints...)
	}
	maps.Copy(n.Labels, l.model.Labels)
	n.Status = v.statusOf(nodes, now)
	return n
}

// statusOf adds up nodes: what they have, and what of it pods that are not the tree's
// leave.
func (v *view) statusOf(nodes []*memberNode, now time.Time) corev1.NodeStatus {
	capacity, allocatable := corev1.ResourceList{}, corev1.ResourceList{}
	ready := 0
	var version string
	for _, n := range nodes {
		if !n.ready {
			continue
		}
		ready++
		version = n.kubelet
		n.capacity.AddTo(capacity, 1)
		n.allocatable.AddTo(allocatable, 1)
		v.taken[n.Name].AddTo(allocatable, -1)
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: allocatable, Conditions: nodeConditions(ready > 0, metav1.NewTime(now)),
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: api.KubeletPort}},
		NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64"},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
	}
}

func nodeConditions(ready bool, now metav1.Time) []corev1.NodeCondition {
	out := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "LeafNodeReady"}}
	if !ready {
		out[0].Status, out[0].Reason = corev1.ConditionFalse, "LeafNodesNotReady"
	}
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
		out = append(out, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "LeafNodeSufficient"})
	}
	for i := range out {
		out[i].LastHeartbeatTime, out[i].LastTransitionTime = now, now
	}
	return out
}

// nodeAction is what is to be done for the node of a leaf.
type nodeAction string

const (
	nodeKeep   nodeAction = "leave the node"
	nodeRead   nodeAction = "read the node on the hub"
	nodeCreate nodeAction = "create the node"
	nodePatch  nodeAction = "patch taints and status"
)

// decideNode decides for a node of which the cache of the hub tells.
func decideNode(hub *hubNode, want *corev1.Node) nodeAction {
	if hub != nil && hub.sum == nodeSum(want) {
		return nodeKeep
	}
	return nodeRead // the cache may be behind
}

// decideReadNode decides for a node that was read, nil if there is none.
func decideReadNode(hub, want *corev1.Node) nodeAction {
	switch {
	case hub == nil:
		return nodeCreate
	case nodeSum(hub) == nodeSum(want):
		return nodeKeep
	}
	return nodePatch
}

// keepStates returns the taints that a node is to have, with those by which the hub says
// how it is.
func keepStates(hub *corev1.Node, want []corev1.Taint) []corev1.Taint {
	out := slices.Clone(want)
	for _, t := range hub.Spec.Taints {
		if isState(&t) {
			out = append(out, t)
		}
	}
	return out
}

// versionsOf returns the versions of a leaf on both sides, nil unless it is there and
// stands for one node: only then do these say whether either has changed.
func (l *leaf) versionsOf(hub *hubNode, v *view) *versions {
	if nodes := v.nodesOf(l); hub != nil && l.mode == api.LeafNode && len(nodes) == 1 {
		return &versions{hub.ResourceVersion, nodes[0].ResourceVersion}
	}
	return nil
}

// hasAgreed tells whether both sides agreed at these versions. To write out again what
// both are would be most of what a large tree does.
func (l *leaf) hasAgreed(now *versions) bool {
	was := l.agreed.Load()
	return now != nil && was != nil && *was == *now
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
