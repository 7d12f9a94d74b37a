package fleet

import (
	"net/netip"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

type nodeState uint8

const (
	nodePlanned  nodeState = iota // not created yet
	nodeCreating                  // its POST is under way
	nodeAlive
	nodeLeaving // Delete deletes it
	nodeDeleted // by Delete, or by somebody else
)

// node is one simulated node.
type node struct {
	wheel.Timer  // next renewal or heartbeat; before that: its creation
	name         string
	index        uint32 // in nodes.all
	number       uint32 // of all nodes of the fleet: its name and address
	state        nodeState
	fault        *injectedFault // nil when it is well
	host         netip.Addr     // what its pods have as host IP
	view         nodeView       // what the watch said last
	uid          string
	leaseVersion uint64     // 0 before it has a lease
	hasLease     bool       // it was written
	renewalDue   clock.Time // of the lease; 0 without leases
	statusDue    clock.Time // of a stage with a delay; 0 for none
	choice       stage.Choice
	kept         []byte // what the stage of choice needs of the node
	job          *job   // of its creation or its lease
	statusJob    *job
	blocks       []addressBlock
}

// nodeView is what is kept of an object.Node.
type nodeView struct {
	seen        bool
	schedulable bool
	counted     bool // among the schedulable nodes
}

// hasEnded says that there is nothing left to say of a node.
func (n *node) hasEnded() bool { return n.state >= nodeLeaving }

// armTimer sets a living node's timer to what is due first.
func (n *node) armTimer(w *wheel.Wheel) {
	next := n.renewalDue
	if next == 0 || n.statusDue != 0 && n.statusDue < next {
		next = n.statusDue
	}
	if next != 0 {
		w.Set(&n.Timer, next)
	}
}

// forgetJob drops a job that a node waits for.
func (n *node) forgetJob(j *job) {
	if n.job == j {
		n.job = nil
	}
	if n.statusJob == j {
		n.statusJob = nil
	}
}

// lookAt takes what the watch says about the node.
func (n *node) lookAt(o *object.Node) {
	ready := string(o.Ready) == "True"
	free := !slices.ContainsFunc(o.Taints, func(key []byte) bool { return string(key) != object.FleetLabel }) // pods for a fleet tolerate its own
	n.view = nodeView{seen: true, counted: n.view.counted, schedulable: ready && free && !o.Unschedulable}
}
