package tree

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// nodeWorld is a leaf on a hub, and what it stands for in the member, without a server.
type nodeWorld struct {
	leaf    *leaf
	nodes   map[string]*corev1.Node // of the member
	pods    map[string]*corev1.Pod  // likewise
	hub     *corev1.Node
	cached  *hubNode // what the hub's cache has of it
	version int      // of objects
	journal
}

func newNodeWorld(mode string) *nodeWorld {
	l := &leaf{node: "leaf", mode: mode, model: &api.LeafModel{}}
	switch mode {
	case api.LeafNode:
		l.node, l.model.NodeSelector.NodeName = "n0", "n0"
	case api.LeafParty:
		l.model.NodeSelector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "z0"}}
	}
	return &nodeWorld{leaf: l, nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
}

func (w *nodeWorld) view() *view {
	var nodes []*memberNode
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		nodes = append(nodes, keepMemberNode(w.nodes[name]))
	}
	v := newView(nodes)
	for _, p := range w.pods {
		if w.leaf.mode == api.LeafNode {
			continue // of such leaves pods are not looked at
		}
		v.addPods([]corev1.Pod{*p})
	}
	return v
}

// correct does once what is decided; false when the node is left as it is.
func (w *nodeWorld) correct() bool {
	v := w.view()
	now := w.leaf.versionsOf(w.cached, v)
	if w.leaf.hasAgreed(now) {
		w.say("both are as they agreed")
		return false
	}
	want := desiredNode("m0", w.leaf, v, time.Unix(1, 0))
	action := decideNode(w.cached, want)
	w.say("%s", action)
	if action == nodeKeep {
		w.leaf.agreed.Store(now)
		return false
	}
	action = decideReadNode(w.hub, want)
	w.say("%s", action)
	switch action {
	case nodeCreate:
		w.write(want)
	case nodePatch:
		if nodeSum(w.hub) == nodeSum(want) {
			w.never("a node is patched that does not differ")
		}
		next := w.hub.DeepCopy()
		next.Spec.Taints, next.Status = keepStates(w.hub, want.Spec.Taints), want.Status
		w.write(next)
	}
	w.cache()
	return true
}

func (w *nodeWorld) write(n *corev1.Node) {
	w.version++
	w.hub = n.DeepCopy()
	w.hub.ResourceVersion = fmt.Sprint(w.version)
}

// cache lets the hub's cache have what the hub has.
func (w *nodeWorld) cache() {
	w.cached = nil
	if w.hub != nil {
		w.cached = keepHubNode(w.hub)
	}
}

// settle corrects until there is nothing left to do.
func (w *nodeWorld) settle() bool {
	for range 5 {
		if !w.correct() {
			return true
		}
	}
	return false
}

func (w *nodeWorld) setNode(name string, args map[string]string) {
	w.version++
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": args["zone"]}, ResourceVersion: fmt.Sprint(w.version)}}
	ready := corev1.ConditionTrue
	if args["ready"] == "no" {
		ready = corev1.ConditionFalse
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(args["cpu"])}
	n.Status.Capacity, n.Status.Allocatable = cpu, cpu
	if key := args["taint"]; key != "" {
		n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
	}
	w.nodes[name] = n
}

func (w *nodeWorld) setPod(name string, args map[string]string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: args["node"]}}
	if args["of"] == "tree" {
		p.Labels = map[string]string{api.LabelPod: "true"}
	}
	p.Status.Phase = corev1.PodPhase(cmp.Or(args["phase"], string(corev1.PodRunning)))
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(args["cpu"])}}}}
	w.pods[name] = p
}

// act plays a command.
func (w *nodeWorld) act(s repotest.Step) {
	switch s.Name + " " + s.Words[0] {
	case "member node":
		w.setNode(s.Words[1], s.Args)
	case "member remove":
		delete(w.nodes, s.Words[1])
	case "member pod":
		w.setPod(s.Words[1], s.Args)
	case "hub capacity":
		next := w.hub.DeepCopy()
		next.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.Args["cpu"])}
		w.write(next)
		w.cache()
	case "hub taint":
		next := w.hub.DeepCopy()
		next.Spec.Taints = append(next.Spec.Taints, corev1.Taint{Key: s.Words[1], Effect: corev1.TaintEffectNoSchedule})
		w.write(next)
		w.cache()
	case "hub remove":
		w.hub, w.cached = nil, nil
	case "hub forget": // the cache falls behind
		w.cached = nil
	}
}

// String says what the hub's node shows.
func (w *nodeWorld) String() string {
	if w.hub == nil {
		return "hub: -"
	}
	var taints []string
	for _, t := range w.hub.Spec.Taints {
		taints = append(taints, t.Key)
	}
	s := w.hub.Status
	ready := "ready"
	if !isReady(w.hub) {
		ready = "not ready"
	}
	return fmt.Sprintf("hub: %s is %s, cpu %s of %s; taints %s", w.hub.Name, ready, s.Allocatable.Cpu(), s.Capacity.Cpu(), strings.Join(taints, " "))
}

// TestNodes plays what a leaf shows of the member's nodes, and what is written of it.
func TestNodes(t *testing.T) {
	var w *nodeWorld
	repotest.Trace(t, "testdata/nodes.trace", func(t *testing.T, s repotest.Step) string {
		if s.Name == "leaf" {
			w = newNodeWorld(s.Args["mode"])
			return ""
		}
		return play(t, s, w, func() { w.act(s) })
	})
}

// drawNodes draws what a member has, and what the hub has of a leaf: nothing, what it was
// to have, or something that somebody else wrote.
func drawNodes(r *rand.Rand) (w *nodeWorld, capacity, taken int64) {
	mode := []string{api.LeafNode, api.LeafParty, api.LeafAll}[r.IntN(3)]
	w = newNodeWorld(mode)
	for i := range r.IntN(4) {
		name, zone, cpu := fmt.Sprint("n", i), fmt.Sprint("z", r.IntN(2)), 1+r.Int64N(8)
		args := map[string]string{"zone": zone, "cpu": fmt.Sprint(cpu)}
		ready := r.IntN(3) > 0
		if !ready {
			args["ready"] = "no"
		}
		w.setNode(name, args)
		shows := ready && (mode == api.LeafAll || mode == api.LeafNode && i == 0 || mode == api.LeafParty && zone == "z0")
		if shows {
			capacity += cpu
		}
		for k := range r.IntN(3) {
			of := []string{"tree", "member"}[r.IntN(2)]
			w.setPod(fmt.Sprint(name, "-p", k), map[string]string{"node": name, "cpu": "1", "of": of})
			if shows && of == "member" && mode != api.LeafNode {
				taken++
			}
		}
	}
	switch r.IntN(3) {
	case 1:
		w.write(desiredNode("m0", w.leaf, w.view(), time.Unix(0, 0)))
	case 2:
		w.write(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.leaf.node}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, {Key: "other", Effect: corev1.TaintEffectNoSchedule},
		}}})
	}
	if r.IntN(2) == 0 {
		w.cache()
	}
	return w, capacity, taken
}

// TestNodesConverge holds, from any state of both sides, that a leaf shows what its nodes
// have and what pods that are not the tree's leave of it, that it is left alone then, and
// that the taints by which the hub says how the node is stay.
func TestNodesConverge(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 0))
		w, capacity, taken := drawNodes(r)
		states := w.hub != nil && slices.ContainsFunc(w.hub.Spec.Taints, func(t corev1.Taint) bool { return isState(&t) })
		if !w.settle() || len(w.log) > 3 {
			t.Fatalf("seed %d: it does not settle after one write: %v", seed, w.log)
		}
		s := w.hub.Status
		if s.Capacity.Cpu().Value() != capacity || s.Allocatable.Cpu().Value() != capacity-taken || isReady(w.hub) != (capacity > 0) {
			t.Fatalf("seed %d: %s, want %d of %d", seed, w, capacity-taken, capacity)
		}
		if has := slices.ContainsFunc(w.hub.Spec.Taints, func(t corev1.Taint) bool { return isState(&t) }); has != states {
			t.Fatalf("seed %d: %s: it says how the node is: %v, before %v", seed, w, has, states)
		}
		if len(w.wrong) > 0 {
			t.Fatalf("seed %d: %v", seed, w.wrong)
		}
		w.log = nil
		if w.correct() {
			t.Fatalf("seed %d: it is written again: %v", seed, w.log)
		}
	}
}

// TestResourcesKeys holds what starts a pass over a member's leaves: of a burst of pods one
// for each of their nodes, however many wait; of nodes what pods may take of them.
func TestResourcesKeys(t *testing.T) {
	released, better := Default(), Default()
	better.NodePatch = Changed
	keys, others := map[string]bool{}, map[string]bool{}
	for i := range 20 {
		p := &memberPod{own: true, node: fmt.Sprint("n", i%3)}
		keys[resourcesKey(p, &released)], others[resourcesKey(p, &better)] = true, true
	}
	if len(keys) != 3 || !maps.Equal(others, map[string]bool{"": true}) {
		t.Errorf("20 pods are the keys %v, where only others' pods count %v", keys, others)
	}
	repotest.Equal(t, resourcesKey(&memberPod{own: true}, &released), "", "a pod without a node is the key")
	was := func(change func(*corev1.Node)) *memberNode {
		n := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("9")}}}
		change(n)
		return keepMemberNode(n)
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"label":       {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"taint":       {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }, false},
		"heartbeat":   {func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: "DiskPressure"}} }, false},
		"ready":       {func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}} }, true},
		"cordon":      {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"allocatable": {func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3") }, true},
	} {
		repotest.Equal(t, changesResources(was(func(*corev1.Node) {}), was(c.change)), c.want, "%s", name)
	}
}
