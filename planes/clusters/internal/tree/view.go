package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// view is what is known of a member's nodes and pods at a moment.
type view struct {
	nodes  []*memberNode
	byName map[string]*memberNode
	taken  map[string]amounts // by pods that are not the tree's, by node
}

func newView(nodes []*memberNode) *view {
	v := &view{nodes: nodes, byName: make(map[string]*memberNode, len(nodes)), taken: map[string]amounts{}}
	for _, n := range nodes {
		v.byName[n.Name] = n
	}
	return v
}

func (v *view) addPods(pods []corev1.Pod) {
	for i := range pods {
		if p := &pods[i]; !isOwn(p) {
			v.taken[p.Spec.NodeName] = append(v.taken[p.Spec.NodeName], requestsOf(p)...)
		}
	}
}

// look lists the member's nodes.
func (c *nodeController) look(ctx context.Context) (*view, error) {
	var list corev1.NodeList
	if err := c.member.client.Nodes.List(ctx, "", &list, metav1.ListOptions{ResourceVersion: "0"}); err != nil {
		return nil, fmt.Errorf("list nodes of member %s: %w", c.member.name, err)
	}
	nodes := make([]*memberNode, len(list.Items))
	for i := range list.Items {
		nodes[i] = nodeAsKept(&list.Items[i])
	}
	return newView(nodes), nil
}

// lookFor is what a leaf's status is made of: as Kosmos lists it, for each leaf.
func (c *nodeController) lookFor(ctx context.Context, l *leaf) (*view, error) {
	v, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	switch l.mode {
	case api.LeafParty:
		return v, c.lookAtPods(ctx, v, "")
	case api.LeafAll:
		for _, n := range v.nodes {
			if err := c.lookAtPods(ctx, v, "spec.nodeName="+n.Name); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// lookAtPods adds the member's pods that a field selector selects.
func (c *nodeController) lookAtPods(ctx context.Context, v *view, fields string) error {
	var list corev1.PodList
	if err := c.member.client.Pods.List(ctx, "", &list, metav1.ListOptions{FieldSelector: fields}); err != nil {
		return fmt.Errorf("list pods of member %s: %w", c.member.name, err)
	}
	v.addPods(list.Items)
	return nil
}

// lookOnce is what all leaves of a pass are made of; nil where each looks for itself.
func (c *nodeController) lookOnce(ctx context.Context) (*view, error) {
	switch c.tree.o.LeafReads {
	case ReadsPerNode:
		return nil, nil
	case ReadsLive:
		v, err := c.look(ctx)
		if err != nil || c.member.leaves[0].mode == api.LeafNode {
			return v, err
		}
		return v, c.lookAtPods(ctx, v, "")
	}
	all := c.member.nodes.GetIndexer().List()
	nodes := make([]*memberNode, len(all))
	for i, o := range all {
		nodes[i] = o.(*memberNode)
	}
	v := newView(nodes)
	if c.member.leaves[0].mode != api.LeafNode {
		for _, o := range c.member.pods.GetIndexer().List() {
			if p := o.(*memberPod); len(p.requests) > 0 {
				v.taken[p.node] = append(v.taken[p.node], p.requests...)
			}
		}
	}
	return v, nil
}

// of returns the nodes that a leaf stands for.
func (v *view) of(l *leaf) []*memberNode {
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

// nodeOf returns a leaf as the host is to have it.
func (c *nodeController) nodeOf(l *leaf, v *view) *corev1.Node {
	n := &corev1.Node{}
	n.Name = l.node
	n.Labels = map[string]string{
		api.LabelNode: "true", corev1.LabelHostname: l.node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "kubernetes.io/role": "agent",
	}
	n.Annotations = map[string]string{api.AnnotationOwnedBy: c.member.name, "leafNodeMode": "one2cluster"}
	n.Spec.Taints = []corev1.Taint{{Key: api.LabelNode, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	n.Spec.Taints = append(n.Spec.Taints, l.model.Taints...)
	nodes := v.of(l)
	if l.mode == api.LeafNode && len(nodes) == 1 {
		for name, value := range nodes[0].labels.all() {
			if n.Labels[name] == "" {
				n.Labels[name] = value
			}
		}
		n.Spec.Taints = append(n.Spec.Taints, nodes[0].taints...)
	}
	for name, value := range l.model.Labels {
		n.Labels[name] = value
	}
	n.Status = c.statusOf(nodes, v)
	return n
}

// statusOf adds up nodes: what they have, and what of it pods that are not the tree's
// leave.
func (c *nodeController) statusOf(nodes []*memberNode, v *view) corev1.NodeStatus {
	capacity, allocatable := corev1.ResourceList{}, corev1.ResourceList{}
	ready := 0
	var version string
	for _, n := range nodes {
		if !n.ready {
			continue
		}
		ready++
		version = n.kubelet
		n.capacity.addTo(capacity, 1)
		n.allocatable.addTo(allocatable, 1)
		v.taken[n.Name].addTo(allocatable, -1)
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: allocatable, Conditions: c.conditions(ready > 0),
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: api.KubeletPort}},
		NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64"},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
	}
}

func (c *nodeController) conditions(ready bool) []corev1.NodeCondition {
	now := metav1.NewTime(c.tree.now())
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

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
