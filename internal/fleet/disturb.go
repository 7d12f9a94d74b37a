package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/fleet/wheel"
	"github.com/windtunnel/windtunnel/scenario"
)

// The ways to disturb nodes. With NotReady the node says so itself and renews
// its lease; with Silent it says nothing at all: no renewals, no status, no
// progress of its pods. Flap is NotReady for a while, again and again, at random.
// Slow adds a delay to whatever happens to the node and its pods; Skew moves the
// times in its leases. Reconnect breaks all connections of the fleet at once.
const (
	NotReady  = "notready"
	Silent    = "silent"
	Flap      = "flap"
	Slow      = "slow"
	Skew      = "skew"
	Reconnect = "reconnect"
)

// ErrVictims says that there is nothing to disturb.
var ErrVictims = errors.New("nothing to disturb")

// fault is what is wrong with some nodes.
type fault struct {
	action   string
	delay    time.Duration
	down     bool // of notready, silent and flap: now
	nodes    []*node
	withheld []*job
	timers   []*wheel.Timer // of flap
}

// silent says that a node says nothing now. All methods take nil for a node
// that is well.
func (x *fault) silent() bool { return x != nil && x.action == Silent }

// hides says that the node's status is not for stages to play on now.
func (x *fault) hides() bool { return x != nil && x.down }

func (x *fault) slower() time.Duration {
	if x == nil || x.action != Slow {
		return 0
	}
	return x.delay
}

func (x *fault) skew() time.Duration {
	if x == nil || x.action != Skew {
		return 0
	}
	return x.delay
}

// Disturb does to nodes or pods of the fleet what d asks for, to those that the
// fleet's seed chooses, until undo is called. Nodes that are disturbed already
// are not chosen again. Undo may be called twice; it waits for nothing.
func (f *Fleet) Disturb(ctx context.Context, d scenario.Disturbance) (undo func(), err error) {
	if d.Pods != nil {
		return f.disturbPods(ctx, d)
	}
	if d.Action == Reconnect {
		if f.drop == nil {
			return nil, fmt.Errorf("fleet: %s: its connections cannot be broken", d.Action)
		}
		f.drop()
		if f.kubelets != nil {
			f.kubelets.Break()
		}
		return func() {}, nil
	}
	if d.Nodes == nil {
		return nil, fmt.Errorf("fleet: disturbance %q of neither nodes nor pods", d.Action)
	}
	names, err := f.selected(ctx, nodesPath, d.Nodes.Selector)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	victims := f.victims(d.Nodes, names)
	if len(victims) == 0 {
		return nil, fmt.Errorf("fleet: %s: %w: no healthy node of the fleet matches", d.Action, ErrVictims)
	}
	x := &fault{action: d.Action, delay: time.Duration(d.Delay), nodes: victims}
	for _, n := range victims {
		n.fault = x
	}
	f.faults[x] = true
	switch d.Action {
	case NotReady, Silent:
		x.down = true
		f.turn(x, x.nodes)
	case Flap:
		f.flap(x, d)
	case Slow, Skew:
	default:
		f.heal(x)
		return nil, fmt.Errorf("fleet: %q is no way to disturb nodes: want notready, silent, flap, slow, skew or reconnect", d.Action)
	}
	f.wake()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.heal(x)
		f.wake()
	}, nil
}

// victims chooses nodes that live and are well; names nil means any.
func (f *Fleet) victims(v *scenario.Victims, names map[string]string) []*node {
	var all []*node
	for _, n := range f.nodes {
		if n == nil || n.state != nodeAlive || n.fault != nil {
			continue
		}
		if _, ok := names[n.name]; ok || names == nil {
			all = append(all, n)
		}
	}
	f.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:wanted(v, len(all))]
}

// wanted is how many of so many are victims: all, unless a number is given.
func wanted(v *scenario.Victims, of int) int {
	switch {
	case v.Count > 0:
		return min(v.Count, of)
	case v.Percent > 0:
		return min(int(math.Ceil(v.Percent/100*float64(of))), of)
	}
	return of
}

// turn tells the server what nodes of a fault say of themselves now. A silent
// one says nothing.
func (f *Fleet) turn(x *fault, nodes []*node) {
	if x.action == Silent {
		return
	}
	for _, n := range nodes {
		f.condition(n, x.down)
	}
}

// condition lets a node report that it is Ready, or not.
func (f *Fleet) condition(n *node, down bool) {
	if n.state != nodeAlive || f.stopped {
		return
	}
	status, reason, message := "True", "KubeletReady", "kubelet is posting ready status"
	if down {
		status, reason, message = "False", "KubeletNotReady", "made NotReady by windtunnel"
	}
	at := f.clock.Wall(f.clock.Now()).UTC().Format(time.RFC3339)
	j := f.newJob(nodeCondition, n, nil, f.clock.Now())
	j.body = fmt.Appendf(j.body[:0],
		`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
		status, reason, message, at, at)
	f.enqueue(j)
}

// flap lets each node of a fault fail and come back, each on its own.
func (f *Fleet) flap(x *fault, d scenario.Disturbance) {
	up, down := time.Duration(d.Between), time.Duration(d.Down)
	for _, n := range slices.Clone(x.nodes) {
		own := &fault{action: Flap, nodes: []*node{n}}
		n.fault = own
		t := &wheel.Timer{}
		t.Fire = func() {
			own.down = !own.down
			f.turn(own, own.nodes)
			mean := up
			if own.down {
				mean = down
			}
			f.wheel.Set(t, f.clock.Now().Add(exponential(f.rng, mean)))
		}
		x.timers = append(x.timers, t)
		f.wheel.Set(t, f.clock.Now().Add(exponential(f.rng, up)))
	}
}

// exponential is a random time with a mean.
func exponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(mean))
}

// heal ends a fault: nodes say that they are well, renew their leases, and what
// was withheld goes on from now.
func (f *Fleet) heal(x *fault) {
	if !f.faults[x] {
		return
	}
	delete(f.faults, x)
	for _, t := range x.timers {
		f.wheel.Stop(t)
	}
	for _, n := range x.nodes {
		was := n.fault
		n.fault = nil
		if was.hides() {
			f.condition(n, false)
		}
	}
	now := f.clock.Now()
	for _, j := range x.withheld {
		j.withheld = false
		if j.cancelled {
			f.freeJob(j)
			continue
		}
		j.asked = now // it was the node that was late, not the fleet
		f.place(j)
	}
	x.withheld = nil
}
