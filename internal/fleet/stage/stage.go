// Package stage says what happens to a simulated object next: a pure machine
// from (object, now, chance) to an effect, with the meaning of kwok's Stages.
//
// It sends nothing and waits for nothing: package fleet watches the objects,
// keeps the delays and carries the effects out. A stage is played in two steps,
// so that a body holds the time when it is sent and not when it was decided:
// Pod or Node choose a stage and its delay, RenderPod or RenderNode write what
// to send.
package stage

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// Kind is what an effect does.
type Kind uint8

// The kinds of effects.
const (
	None   Kind = iota // leave the object alone
	Patch              // a strategic merge patch
	Delete             // delete with a grace period of 0
)

// Effect is what a stage asks for.
type Effect struct {
	Kind        Kind
	Subresource string
	Body        []byte // JSON of a Patch
}

// Choice is the stage that plays next.
type Choice struct {
	rule  *rule
	Delay time.Duration
}

// None says that no stage matches: the object is left alone.
func (c Choice) None() bool { return c.rule == nil }

// Stage returns the stage's name; empty for none.
func (c Choice) Stage() string {
	if c.rule == nil {
		return ""
	}
	return c.rule.name
}

// Addresses gives nodes and pods their IP addresses.
type Addresses interface {
	Host(node []byte) netip.Addr
	Pod(*object.Pod) netip.Addr
}

// Env is what a stage knows besides its object.
type Env struct {
	Now         time.Time // goes into bodies
	Addresses   Addresses
	Version     string // of the program, which nodes name that do not say what they are
	KubeletPort int    // where nodes' kubelets are served; 0: nowhere
}

// Set is a set of compiled stages. It is immutable and may be used by many
// goroutines.
type Set struct {
	name  string
	pods  []*rule
	nodes []*rule
}

// Join returns a set of the stages of pods of one set and of nodes of another;
// either may be nil, for none.
func Join(pods, nodes *Set) *Set {
	out := &Set{name: "joined"}
	if pods != nil {
		out.pods = pods.pods
	}
	if nodes != nil {
		out.nodes = nodes.nodes
	}
	return out
}

// Name returns the set's name, such as fast.
func (s *Set) Name() string { return s.name }

// rule is one compiled stage: its selector, delay and effect.
type rule struct {
	name   string
	delay  delay
	pod    func(*object.Pod) bool
	node   func(*object.Node) bool
	kind   Kind
	render func(*writer, any)
}

// delay is d, or evenly spread between d and jitter when jitter is larger, and
// jitter when it is not.
type delay struct{ d, jitter time.Duration }

func (d delay) pick(rng *rand.Rand) time.Duration {
	switch {
	case d.jitter == 0:
		return d.d
	case d.jitter <= d.d:
		return d.jitter
	default:
		return d.d + time.Duration(rng.Int64N(int64(d.jitter-d.d)))
	}
}

// Pod chooses the stage that plays next on a pod.
func (s *Set) Pod(p *object.Pod, rng *rand.Rand) Choice {
	return choose(s.pods, rng, func(r *rule) bool { return r.pod(p) })
}

// Node chooses the stage that plays next on a node.
func (s *Set) Node(n *object.Node, rng *rand.Rand) Choice {
	return choose(s.nodes, rng, func(r *rule) bool { return r.node(n) })
}

// choose takes one of the matching rules, each as likely as the other.
func choose(rules []*rule, rng *rand.Rand, match func(*rule) bool) Choice {
	var found *rule
	n := 0
	for _, r := range rules {
		if !match(r) {
			continue
		}
		if n++; n == 1 || rng.IntN(n) == 0 {
			found = r
		}
	}
	if found == nil {
		return Choice{}
	}
	return Choice{rule: found, Delay: found.delay.pick(rng)}
}

// RenderPod writes what a choice asks for, its body appended to dst.
func (s *Set) RenderPod(dst []byte, c Choice, p *object.Pod, env Env) Effect {
	return render(dst, c, p, env)
}

// RenderNode writes what a choice asks for, its body appended to dst.
func (s *Set) RenderNode(dst []byte, c Choice, n *object.Node, env Env) Effect {
	return render(dst, c, n, env)
}

func render(dst []byte, c Choice, object any, env Env) Effect {
	if c.rule == nil {
		return Effect{}
	}
	e := Effect{Kind: c.rule.kind}
	if e.Kind == Patch {
		w := writer{b: dst, env: env}
		c.rule.render(&w, object)
		e.Subresource, e.Body = "status", w.b
	}
	return e
}
