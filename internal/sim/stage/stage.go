// Package stage plays the stages of pods and nodes on what an API server sends of
// them in protobuf: the fleet's own way, a fraction of the cost of a player's.
// What stages mean is package machine's alone.
//
// It sends nothing and waits for nothing. A stage is played in two steps, so that
// a body holds the time when it is sent and not when it was decided: Pod or Node
// choose a stage and its delay, RenderPod or RenderNode write what to send.
package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// Choice is the stage that plays next.
type Choice struct {
	stage *machine.Stage
	Delay time.Duration
}

// None says that no stage matches: the object is left alone.
func (c Choice) None() bool { return c.stage == nil }

// Stage returns the stage's name; empty for none.
func (c Choice) Stage() string {
	if c.stage == nil {
		return ""
	}
	return c.stage.Name()
}

// Addresses gives nodes and pods their IP addresses.
type Addresses interface {
	Host(node []byte) netip.Addr
	Pod(*object.Pod) netip.Addr
}

// Env is what a stage knows besides its object.
type Env struct {
	Now         time.Time // goes into bodies, in whole seconds as the API keeps it
	Addresses   Addresses
	Version     string // of the program, which nodes name that do not say what they are
	KubeletPort int    // where nodes' kubelets are served; 0: nowhere
}

// Set is a set of compiled stages. It is immutable and may be used by many
// goroutines.
type Set struct {
	pods, nodes           machine.Stages
	podSchema, nodeSchema *object.Schema
	slowPods, slowNodes   error
	renders               sync.Pool // of *rendering
}

// New returns the stages of pods and nodes of a machine that can be played on
// protobuf; SlowPods and SlowNodes say why those are left out that cannot.
func New(m *machine.Machine) *Set {
	s := &Set{podSchema: object.NewSchema[corev1.Pod]("v1", "Pod"), nodeSchema: object.NewSchema[corev1.Node]("v1", "Node")}
	s.renders.New = func() any { return &rendering{} }
	s.pods, s.slowPods = requireReadable(m.Stages(machine.Resource{APIVersion: "v1", Kind: "Pod"}), s.podSchema)
	s.nodes, s.slowNodes = requireReadable(m.Stages(machine.Resource{APIVersion: "v1", Kind: "Node"}), s.nodeSchema)
	for _, n := range s.nodes {
		if n.Deletes() && s.slowNodes == nil {
			s.nodes, s.slowNodes = nil, fmt.Errorf("stage %s: deletes nodes", n.Name())
		}
	}
	return s
}

// Fast returns the built-in set "fast".
func Fast() (*Set, error) {
	f, err := builtin.Load("fast")
	if err != nil {
		return nil, err
	}
	m, err := machine.Compile(f.Stages)
	if err != nil {
		return nil, fmt.Errorf("compile the set fast: %w", err)
	}
	return New(m), nil
}

func requireReadable(stages machine.Stages, s *object.Schema) (machine.Stages, error) {
	for _, st := range stages {
		if why := st.Slow(s); why != "" {
			return nil, fmt.Errorf("stage %s: %s", st.Name(), why)
		}
	}
	return stages, nil
}

// SlowPods says why the stages of pods must be played on JSON, by a player; nil
// when they need not.
func (s *Set) SlowPods() error { return s.slowPods }

// SlowNodes is SlowPods for nodes.
func (s *Set) SlowNodes() error { return s.slowNodes }

// Pod chooses the stage that plays next on a pod.
func (s *Set) Pod(p *object.Pod, rng *rand.Rand) Choice {
	return chooseStage(s.pods, p.Open(s.podSchema), rng)
}

// Node chooses the stage that plays next on a node.
func (s *Set) Node(n *object.Node, rng *rand.Rand) Choice {
	return chooseStage(s.nodes, n.Open(s.nodeSchema), rng)
}

func chooseStage(stages machine.Stages, o object.Value, rng *rand.Rand) Choice {
	c, err := stages.Choose(o, time.Time{}, rng)
	if err != nil { // cannot be: of expressions in CEL, which are not played here
		return Choice{}
	}
	return Choice{c.Stage, c.Delay}
}

// Keep appends what RenderNode will need of a node's message for a choice that is
// played later.
func (s *Set) Keep(dst []byte, c Choice, n *object.Node) []byte {
	paths, all := c.stage.Reads()
	if all {
		return append(dst, n.Raw()...)
	}
	return s.nodeSchema.Project(dst, n.Raw(), append(paths, []string{"metadata", "uid"}, []string{"metadata", "name"}))
}

// RenderPod writes what a choice asks for, its body appended to dst. The error is
// that of a template: the pod is to be left alone.
func (s *Set) RenderPod(dst []byte, c Choice, p *object.Pod, env Env) (machine.Effect, error) {
	r := s.newRendering(env)
	r.pod = p
	o := p.Open(s.podSchema)
	e, err := c.appendBody(dst, o, r)
	if errors.Is(err, render.ErrUnread) {
		e, err = c.appendWhole(dst, o, p.Raw(), &corev1.Pod{}, r)
	}
	s.renders.Put(r)
	return e, err
}

// RenderNode is RenderPod for nodes.
func (s *Set) RenderNode(dst []byte, c Choice, n *object.Node, env Env) (machine.Effect, error) {
	r := s.newRendering(env)
	r.node = n
	o := n.Open(s.nodeSchema)
	e, err := c.appendBody(dst, o, r)
	if errors.Is(err, render.ErrUnread) {
		e, err = c.appendWhole(dst, o, n.Raw(), &corev1.Node{}, r)
	}
	s.renders.Put(r)
	return e, err
}

func (s *Set) newRendering(env Env) *rendering {
	r := s.renders.Get().(*rendering)
	r.of, r.pod, r.node = env, nil, nil
	r.env = render.Env{Now: env.Now.UTC().Truncate(time.Second), Version: env.Version, Fleet: r}
	return r
}

// rendering answers for the fleet while one body is written.
type rendering struct {
	of   Env
	env  render.Env
	pod  *object.Pod
	node *object.Node

	lists [2][]object.Value // of one address each: the host's, the pod's
	name  []byte
}

func (c Choice) appendBody(dst []byte, o object.Value, r *rendering) (machine.Effect, error) {
	if c.stage == nil {
		return machine.Effect{}, nil
	}
	return c.stage.Append(dst, o, &r.env)
}

// appendWhole is append for an object whose message does not tell enough.
func (c Choice) appendWhole(dst []byte, o object.Value, raw []byte, whole interface{ Unmarshal(raw []byte) error }, r *rendering) (machine.Effect, error) {
	if err := whole.Unmarshal(raw); err != nil {
		return machine.Effect{}, fmt.Errorf("read the whole object: %w", err)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return machine.Effect{}, fmt.Errorf("read the whole object: %w", err)
	}
	tree, err := machine.Decode(text)
	if err != nil {
		return machine.Effect{}, err
	}
	tree["apiVersion"], tree["kind"] = o.Get("apiVersion").String(), o.Get("kind").String()
	return c.stage.Append(dst, object.Of(tree), &r.env)
}

// Answer implements render.Fleet.
func (r *rendering) Answer(function string, args []object.Value) (object.Value, bool) {
	switch function {
	case "NodeIP":
		return addressText(r.hostAddress(nil)), true
	case "NodeName":
		if r.node != nil {
			return object.Text(string(r.node.Name)), true
		}
		return object.Text(string(r.pod.NodeName)), true
	case "NodePort":
		return object.Of(r.of.KubeletPort), true
	case "NodeIPWith":
		return addressText(r.hostAddress(args)), true
	case "NodeIPsWith":
		return listOfOne(&r.lists[0], r.hostAddress(args)), true
	case "PodIP", "PodIPWith":
		return addressText(r.podAddress()), true
	case "PodIPsWith":
		return listOfOne(&r.lists[1], r.podAddress()), true
	}
	return object.Value{}, false
}

func (r *rendering) hostAddress(args []object.Value) netip.Addr {
	switch {
	case r.of.Addresses == nil:
	case len(args) > 0:
		r.name = args[0].Append(r.name[:0])
		return r.of.Addresses.Host(r.name)
	case r.node != nil:
		return r.of.Addresses.Host(r.node.Name)
	default:
		return r.of.Addresses.Host(r.pod.NodeName)
	}
	return netip.Addr{}
}

func (r *rendering) podAddress() netip.Addr {
	if r.of.Addresses == nil || r.pod == nil {
		return netip.Addr{}
	}
	return r.of.Addresses.Pod(r.pod)
}

func addressText(a netip.Addr) object.Value {
	if !a.IsValid() {
		return object.Text("")
	}
	return object.Text(a.String())
}

// listOfOne returns a list of one address, or an empty one.
func listOfOne(list *[]object.Value, a netip.Addr) object.Value {
	*list = (*list)[:0]
	if a.IsValid() {
		*list = append(*list, addressText(a))
	}
	return object.Of(list)
}
