package fleet

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/wheel"
)

type nodeState uint8

const (
	nodePlanned  nodeState = iota // not created yet
	nodeCreating                  // its POST is under way
	nodeAlive
	nodeLeaving // Delete deletes it
	nodeGone    // somebody deleted it
)

// node is one simulated node.
type node struct {
	wheel.Timer // next renewal or heartbeat; before that: its creation
	name        string
	index       uint32 // in Fleet.nodes
	state       nodeState
	fault       *fault     // what a disturbance does to it; nil when it is well
	host        netip.Addr // what its pods have as host IP
	view        nodeView   // what the watch said last
	uid         string
	lease       uint64     // version of its lease; 0 before it has one
	held        bool       // it has had its lease written
	renewal     clock.Time // when the lease is due; 0 without leases
	beat        clock.Time // when a stage with a delay is due; 0 for none
	choice      stage.Choice
	job         *job // of its creation or its lease
	status      *job // of its status
	blocks      []block
	generation  uint32 // of the list that it was last seen in
}

// nodeView is what is kept of an object.Node.
type nodeView struct {
	created                int64
	ready, running         bool
	hasIP, hasHost         bool
	hasAddresses           bool
	hasCapacity, allocates bool
	info                   uint16 // as of object.Node
	seen, schedulable, was bool
}

// nodeName returns the name of a node: the fleet's and the node's number, so
// that two fleets can live in one cluster.
func (m *model) nodeName(index uint32) string { return fmt.Sprintf("%s-%06d", m.fleet, index) }

// makeNodes makes the nodes that the fleet will create.
func (f *Fleet) makeNodes(count int) {
	nodes := make([]node, count)
	f.byName = make(map[string]*node, count)
	for i := range nodes {
		f.addNode(&nodes[i], f.model.nodeName(uint32(i)))
	}
}

// addNode gives a node its name and number.
func (f *Fleet) addNode(n *node, name string) {
	n.name, n.index = name, uint32(len(f.nodes))
	if last := len(f.vacant) - 1; last >= 0 {
		n.index, f.vacant = f.vacant[last], f.vacant[:last]
		f.nodes[n.index] = n
	} else {
		f.nodes = append(f.nodes, n)
	}
	n.host = hostAddress(n.index)
	if f.nodeIP.IsValid() {
		n.host = f.nodeIP
	}
	n.Fire = func() { f.nodeDue(n) }
	f.byName[name] = n
}

// begin lets the nodes that do not exist yet be created, at the fleet's rate;
// callers hold mu.
func (f *Fleet) begin() {
	f.started = true
	now := f.clock.Now()
	planned := 0
	for _, n := range f.nodes {
		if n.state == nodePlanned {
			f.wheel.Set(&n.Timer, now.Add(time.Duration(float64(planned)/f.cfg.Rate*float64(time.Second))))
			planned++
		}
	}
	f.checkReady()
	f.wake()
}

// nodeDue is called when a node's timer fires.
func (f *Fleet) nodeDue(n *node) {
	due := n.Due
	switch n.state {
	case nodePlanned:
		n.state = nodeCreating
		n.job = f.newJob(nodeCreate, n, nil, due)
		f.enqueue(n.job)
		return
	case nodeAlive:
	default:
		return
	}
	if n.beat != 0 && n.beat <= due {
		f.playNode(n, n.choice, n.beat)
		n.beat = 0
	}
	if n.renewal != 0 && n.renewal <= due {
		if n.fault.silent() {
			f.stats.withheld++
		} else if n.job == nil {
			n.job = f.newJob(leaseRenew, n, nil, n.renewal)
			f.enqueue(n.job)
		} else {
			f.stats.skipped++ // the last one is still on its way
		}
		n.renewal = together(max(n.renewal.Add(f.renewAfter()), f.clock.Now()))
	}
	f.arm(n)
}

// arm sets a node's timer to what is due first.
func (f *Fleet) arm(n *node) {
	next := n.renewal
	if next == 0 || n.beat != 0 && n.beat < next {
		next = n.beat
	}
	if next != 0 && !f.stopped {
		f.wheel.Set(&n.Timer, next)
	}
}

// renewAfter is a quarter of the lease with 4 % of jitter, as kubelets do it.
func (f *Fleet) renewAfter() time.Duration {
	quarter := float64(f.cfg.Lease) / 4
	return time.Duration(quarter * (0.98 + 0.04*f.rng.Float64()))
}

// leaseGrid is how far a renewal may be put off so that it leaves in one write
// with others: waking up for each alone costs more than the renewal itself.
const leaseGrid = clock.Time(100 * time.Millisecond)

// together rounds a due time up to the grid; lateness counts from there.
func together(t clock.Time) clock.Time { return (t + leaseGrid - 1) / leaseGrid * leaseGrid }

// nodeMade takes the answer to the creation of a node, or the one that was
// read because it existed.
func (f *Fleet) nodeMade(j *job) {
	n := j.node
	n.job = nil
	if j.action == nodeRead && j.answer.fleet != f.model.fleet {
		f.fail(fmt.Errorf("fleet: node %s: %w", n.name, ErrForeign))
		f.freeJob(j)
		return
	}
	f.nodeAlive(n, j.answer.uid)
	f.freeJob(j)
}

// nodeAlive begins a node's life.
func (f *Fleet) nodeAlive(n *node, uid string) {
	n.uid = uid
	if n.state == nodeAlive {
		return
	}
	n.state = nodeAlive
	f.stats.created++
	if f.kubelets != nil {
		f.kubelets.Add(n.name)
	}
	if f.stopped {
		return
	}
	if f.cfg.Lease > 0 {
		n.job = f.newJob(leaseCreate, n, nil, f.clock.Now())
		f.enqueue(n.job)
	}
	f.count(n) // the watch may have been faster than the answer
}

// leaseHeld takes the answer to a lease's creation or renewal.
func (f *Fleet) leaseHeld(j *job) {
	n := j.node
	n.job = nil
	if !n.held {
		n.held = true
		f.stats.leases++
	}
	n.lease = j.answer.version
	if n.renewal == 0 && n.state == nodeAlive {
		// Anywhere in the first interval, so that nodes that were made together
		// do not renew together for ever.
		n.renewal = together(j.answer.Done.Add(time.Duration(f.rng.Float64() * float64(f.renewAfter()))))
		f.arm(n)
	}
}

// forget drops a job that a node waits for.
func (n *node) forget(j *job) {
	if n.job == j {
		n.job = nil
	}
	if n.status == j {
		n.status = nil
	}
}

// onNode takes what the watch or a list says about a node.
func (f *Fleet) onNode(kind object.EventType, o *object.Node, raw []byte) {
	n := f.byName[string(o.Name)]
	if f.manage != nil {
		n = f.adopted(n, kind, o, raw)
	}
	if n == nil || f.manage == nil && string(o.Fleet) != f.model.fleet {
		return
	}
	if kind == object.Deleted {
		if string(o.UID) == n.uid {
			f.nodeLost(n)
		}
		return
	}
	n.generation = f.lists[sourceNodes]
	n.view = nodeView{
		created: o.Created, ready: string(o.Ready) == "True", running: string(o.Phase) == "Running",
		hasIP: len(o.InternalIP) > 0, hasHost: o.HasHostname, hasAddresses: o.HasAddresses,
		hasCapacity: o.HasCapacity, allocates: o.HasAllocation, info: o.Info,
		seen: true, was: n.view.was,
		schedulable: string(o.Ready) == "True" && len(o.Taints) == 0 && !o.Unschedulable,
	}
	if n.state == nodePlanned && !f.started { // of an earlier fleet of the same name
		f.nodeAlive(n, string(o.UID))
	}
	f.count(n)
	if n.state != nodeAlive || f.stopped {
		return
	}
	if n.fault.hides() || f.manage.leavesAlone(raw) {
		n.beat = 0
		return
	}
	choice := f.stages.Node(o, f.rng)
	switch now := f.clock.Now(); {
	case choice.None():
		n.beat = 0
	case choice.Delay == 0:
		n.beat = 0
		f.playNode(n, choice, now)
	case n.beat == 0 || n.choice.Stage() != choice.Stage():
		n.choice, n.beat = choice, now.Add(f.beatAfter(choice.Delay))
		f.arm(n)
	}
}

// count keeps the number of schedulable nodes.
func (f *Fleet) count(n *node) {
	is := n.state == nodeAlive && n.view.schedulable
	switch {
	case is && !n.view.was:
		f.stats.schedulable++
	case !is && n.view.was:
		f.stats.schedulable--
	}
	n.view.was = is
	f.checkReady()
}

func (f *Fleet) checkReady() {
	if !f.started || f.stats.schedulable < len(f.byName) || f.stopped {
		return
	}
	select {
	case <-f.ready:
	default:
		close(f.ready)
	}
}

// playNode asks for a stage on a node, unless one is on its way.
func (f *Fleet) playNode(n *node, choice stage.Choice, due clock.Time) {
	if n.status != nil {
		return
	}
	n.status = f.newJob(nodeStatus, n, nil, due)
	n.status.choice = choice
	f.enqueue(n.status)
}

func (f *Fleet) nodePatched(j *job) { j.node.status = nil }

// nodeLost ends a node that somebody deleted.
func (f *Fleet) nodeLost(n *node) {
	if n.state == nodeGone || n.state == nodeLeaving {
		return
	}
	n.state = nodeGone
	if f.kubelets != nil {
		f.kubelets.Remove(n.name)
	}
	f.wheel.Stop(&n.Timer)
	f.stats.lost++
	f.unlease(n)
	f.count(n)
	if f.manage != nil {
		delete(f.byName, n.name)
		f.nodes[n.index] = nil
		f.vacant = append(f.vacant, n.index)
	}
}

func (f *Fleet) unlease(n *node) {
	if n.held {
		n.held = false
		f.stats.leases--
	}
}
