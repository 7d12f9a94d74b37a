package models

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// nodeList is what the binder knows of a cluster.
type nodeList struct {
	nodes   map[string]*boundNode
	order   []*boundNode
	next    int               // in order, where the search for a node begins
	pods    map[string]string // node by pod
	pending map[subject]bool  // pods that found no node
}

// boundNode is a node as the binder sees it.
type boundNode struct {
	name   string
	usable bool
	labels labels.Set
	taints []corev1.Taint
	pods   int // bound
	most   int
}

func (e *Engine) nodesOf(c *backend.Backend) *nodeList {
	l := e.nodes[c]
	if l == nil {
		l = &nodeList{nodes: map[string]*boundNode{}, pods: map[string]string{}, pending: map[subject]bool{}}
		e.nodes[c] = l
	}
	return l
}

// setNode takes in a node that was written, or removed: nil.
func (l *nodeList) setNode(name string, o *store.Object) {
	n := l.nodes[name]
	if o == nil {
		if n != nil {
			n.usable = false
		}
		return
	}
	var node corev1.Node
	if node.Unmarshal(o.Raw) != nil {
		return
	}
	if n == nil {
		n = &boundNode{name: name}
		l.nodes[name] = n
		l.order = append(l.order, n)
	}
	n.labels, n.taints = node.Labels, node.Spec.Taints
	n.usable = !node.Spec.Unschedulable && node.DeletionTimestamp == nil
	ready := false
	for _, c := range node.Status.Conditions {
		ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	n.usable = n.usable && ready
	n.most = int(node.Status.Allocatable.Pods().Value())
}

// setPlace notes that a pod is on a node.
func (l *nodeList) setPlace(pod, node string) {
	if l.pods[pod] == node {
		return
	}
	l.removePod(pod)
	l.pods[pod] = node
	if n := l.nodes[node]; n != nil {
		n.pods++
	}
}

// removePod notes that a pod is nowhere.
func (l *nodeList) removePod(pod string) {
	node, known := l.pods[pod]
	if !known {
		return
	}
	delete(l.pods, pod)
	if n := l.nodes[node]; n != nil {
		n.pods--
	}
}

// findNode returns the next node that takes a pod; nil if none does.
func (l *nodeList) findNode(p *corev1.Pod) *boundNode {
	for i := range l.order {
		n := l.order[(l.next+i)%len(l.order)]
		if n.usable && (n.most == 0 || n.pods < n.most) && n.acceptsPod(p) {
			l.next = (l.next + i + 1) % len(l.order)
			return n
		}
	}
	return nil
}

func (n *boundNode) acceptsPod(p *corev1.Pod) bool {
	if !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(n.labels) {
		return false
	}
	for i := range n.taints {
		if n.taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		tolerated := false
		for _, t := range p.Spec.Tolerations {
			tolerated = tolerated || t.Effect == "" && t.Key == "" && t.Operator == corev1.TolerationOpExists || toleratesTaint(t, n.taints[i])
		}
		if !tolerated {
			return false
		}
	}
	return true
}

func toleratesTaint(t corev1.Toleration, of corev1.Taint) bool {
	if t.Effect != "" && t.Effect != of.Effect || t.Key != "" && t.Key != of.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key == of.Key && t.Value == of.Value
}

// bindPod gives a pod a node, if the default scheduler is to.
func (e *Engine) bindPod(s subject, o *store.Object) {
	var p corev1.Pod
	if p.Unmarshal(o.Raw) != nil || len(p.Spec.SchedulingGates) > 0 {
		return
	}
	if name := p.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		return
	}
	l := e.nodesOf(s.cluster)
	n := l.findNode(&p)
	if n == nil {
		l.pending[s] = true
		return
	}
	delete(l.pending, s)
	l.setPlace(s.key, n.name)
	w := registry.Write{Target: s.targetOf("")}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: n.name}}
	if err := s.cluster.Bind(w, binding); err != nil {
		l.removePod(s.key) // it has gone, or has a node by now
	}
}

// retryPending looks again for nodes of pods that found none.
func (e *Engine) retryPending(c *backend.Backend) {
	l := e.nodesOf(c)
	for s := range l.pending {
		o := s.table.Get(s.key)
		if o == nil {
			delete(l.pending, s)
			continue
		}
		e.lookAtPod(s, o)
		if l.pending[s] {
			return // none of the others will find one either, or at the next node
		}
	}
}
