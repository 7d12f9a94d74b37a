package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/internal/sim/engine"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
	"github.com/windtunnel/windtunnel/internal/unit"
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

// injectedFault is what a disturbance makes wrong with some nodes.
type injectedFault struct {
	action   string
	delay    time.Duration
	down     bool // of notready, silent and flap: now
	nodes    []*node
	withheld engine.List[job]
	timers   []*wheel.Timer // of flap
	flapped  int            // how often one of them went down
}

// isSilent says that a node says nothing now. All methods take nil for a node
// that is well.
func (x *injectedFault) isSilent() bool { return x != nil && x.action == Silent }

// hidesStatus says that the node's status is not for stages to play on now.
func (x *injectedFault) hidesStatus() bool { return x != nil && x.down }

func (x *injectedFault) extraDelay() time.Duration {
	if x == nil || x.action != Slow {
		return 0
	}
	return x.delay
}

func (x *injectedFault) clockSkew() time.Duration {
	if x == nil || x.action != Skew {
		return 0
	}
	return x.delay
}

// disturber injects faults into a fleet's nodes and pods and heals them.
type disturber struct {
	driver    *driver
	nodes     *nodes
	kubelets  *kubeletTraffic
	readiness *readiness
	reconnect func() // breaks all connections; nil when that cannot be done

	faults map[*injectedFault]bool // guarded by the driver's lock
	ending []func()                // of what disturbs pods; guarded by it too
}

// injectFault is Fleet.Disturb.
func (d *disturber) injectFault(ctx context.Context, want scenario.Disturbance) (undo func() error, err error) {
	switch {
	case want.Pods != nil:
		return d.disturbPods(ctx, want)
	case want.Action == Reconnect:
		if d.reconnect == nil {
			return nil, fmt.Errorf("fleet: %s: its connections cannot be broken", want.Action)
		}
		d.reconnect()
		d.kubelets.breakConnections()
		return func() error { return nil }, nil
	case want.Nodes == nil:
		return nil, fmt.Errorf("fleet: disturbance %q of neither nodes nor pods", want.Action)
	}
	names, err := d.selectNodes(ctx, want.Nodes.Selector)
	if err != nil {
		return nil, err
	}
	d.driver.mu.Lock()
	defer d.driver.mu.Unlock()
	victims := d.chooseNodes(want.Nodes, names)
	if len(victims) == 0 {
		return nil, fmt.Errorf("fleet: %s: %w: no healthy node of the fleet matches", want.Action, ErrVictims)
	}
	x := &injectedFault{action: want.Action, delay: time.Duration(want.Delay), nodes: victims}
	for _, n := range victims {
		n.fault = x
	}
	d.faults[x] = true
	switch want.Action {
	case NotReady, Silent:
		x.down = true
		d.postConditions(x)
	case Flap:
		d.flapNodes(x, want)
	case Slow, Skew:
	default:
		d.healFault(x)
		return nil, fmt.Errorf("fleet: %q is no way to disturb nodes: want notready, silent, flap, slow, skew or reconnect", want.Action)
	}
	d.driver.wake()
	return func() error {
		d.driver.mu.Lock()
		defer d.driver.mu.Unlock()
		d.healFault(x)
		d.driver.wake()
		return x.missed(want)
	}, nil
}

// missed says what of a disturbance of nodes did not come about.
func (x *injectedFault) missed(want scenario.Disturbance) error {
	switch {
	case len(x.nodes) < want.Nodes.Count:
		return fmt.Errorf("fleet: %s: %w: of %s that were asked for, %d matched and were well", want.Action, ErrVictims, unit.Count(want.Nodes.Count, "nodes"), len(x.nodes))
	case want.Action == Flap && x.flapped == 0:
		return fmt.Errorf("fleet: %s: %w: no node went down; between is %v", want.Action, ErrVictims, want.Between)
	}
	return nil
}

// chooseNodes chooses nodes that live and are well; names nil means any.
func (d *disturber) chooseNodes(v *scenario.Victims, names map[string]bool) []*node {
	var all []*node
	for _, n := range d.nodes.all {
		if n != nil && n.state == nodeAlive && n.fault == nil && (names == nil || names[n.name]) {
			all = append(all, n)
		}
	}
	d.driver.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:victimCount(v, len(all))]
}

// victimCount is how many of so many are victims: all, unless a number is given.
func victimCount(v *scenario.Victims, of int) int {
	switch {
	case v.Count > 0:
		return min(v.Count, of)
	case v.Percent > 0:
		return min(int(math.Ceil(v.Percent/100*float64(of))), of)
	}
	return of
}

// postConditions tells the server what the nodes of a fault say of themselves
// now. Silent ones say nothing.
func (d *disturber) postConditions(x *injectedFault) {
	if x.action == Silent {
		return
	}
	for _, n := range x.nodes {
		d.postCondition(n, x.down)
	}
}

// postCondition lets a node report that it is Ready, or not.
func (d *disturber) postCondition(n *node, down bool) {
	if n.state != nodeAlive || d.nodes.stopped {
		return
	}
	status, reason, message := "True", "KubeletReady", "kubelet is posting ready status"
	if down {
		status, reason, message = "False", "KubeletNotReady", "made NotReady by windtunnel"
	}
	now := d.driver.clock.Now()
	at := d.driver.clock.Wall(now).UTC().Format(time.RFC3339)
	j := d.driver.newJob(nodeCondition, n, nil, now)
	j.body = fmt.Appendf(j.body[:0],
		`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
		status, reason, message, at, at)
	d.driver.calls.Enqueue(&j.Call)
}

// flapNodes lets each node of a fault fail and come back, each on its own.
func (d *disturber) flapNodes(x *injectedFault, want scenario.Disturbance) {
	e, up, down := d.driver, time.Duration(want.Between), time.Duration(want.Down)
	for _, n := range x.nodes {
		own := &injectedFault{action: Flap, nodes: []*node{n}}
		n.fault = own
		t := &wheel.Timer{}
		t.Fire = func() {
			if own.down = !own.down; own.down {
				x.flapped++
			}
			d.postConditions(own)
			if !own.down {
				d.resumeWithheld(own)
			}
			mean := up
			if own.down {
				mean = down
			}
			e.calls.Set(t, e.clock.Now().Add(randomExponential(e.rng, mean)))
		}
		x.timers = append(x.timers, t)
		e.calls.Set(t, e.clock.Now().Add(randomExponential(e.rng, up)))
	}
}

// randomExponential is a random time with a mean.
func randomExponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(mean))
}

// healFault ends a fault: nodes say that they are well, renew their leases, and what
// was withheld goes on from now.
func (d *disturber) healFault(x *injectedFault) {
	if !d.faults[x] {
		return
	}
	delete(d.faults, x)
	for _, t := range x.timers {
		d.driver.calls.Stop(t)
	}
	for _, n := range x.nodes {
		was := n.fault
		n.fault = nil
		if was.hidesStatus() {
			d.postCondition(n, false)
		}
		d.resumeWithheld(was)
	}
}

// resumeWithheld lets what was withheld go on: it was the node that was late, not the fleet.
func (d *disturber) resumeWithheld(x *injectedFault) {
	d.driver.calls.Resume(&x.withheld, d.driver.clock.Now())
}

// close ends what disturbs pods and waits for it.
func (d *disturber) close() {
	d.driver.mu.Lock()
	ending := d.ending
	d.ending = nil
	d.driver.mu.Unlock()
	for _, end := range ending {
		end()
	}
}
