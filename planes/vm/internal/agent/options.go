package agent

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// What an agent watches beside its node's instances.
const (
	ScopeNode    = "node"    // nothing
	ScopeCluster = "cluster" // every instance of the cluster, as virt-handler does since v1.6
)

// What a start of a machine occupies beside one of the model's slots.
const (
	StartsWorker = "worker" // a worker of the node, until the machine runs
	StartsSlot   = "slot"   // nothing
)

// What runs machines.
const (
	HypervisorModel = "model"
	HypervisorQEMU  = "qemu"
)

// Options are what the agents of one process are told.
type Options struct {
	process.Env                    // of the selected nodes, the agents are those of the shard
	Limiter           limiter.Rate // of each node's client
	Threads           int          // workers of each node
	Starts            string       // StartsWorker or StartsSlot
	Nodes             string       // label selector of the nodes that get an agent
	Scope             string       // ScopeNode or ScopeCluster
	MaxDevices        int          // machines that fit on a node, by its devices
	Heartbeat         time.Duration
	StatusSubresource bool
	Events            bool // event objects are written
	Hypervisor        string
	Model             Model
	Faults            Faults
	QEMUTimeout       time.Duration // the launcher gives up a machine that has not started by then
	Seed              uint64
}

// Faults are what goes wrong on purpose, when machines are taken away.
type Faults struct {
	Selector     string        // label selector of the instances concerned; empty: all
	UnmountShare float64       // of them, those whose disks cannot be unmounted
	UnmountFor   time.Duration // from the first attempt
	UnmountTakes time.Duration // each failing attempt holds a slot for so long
	StuckShare   float64       // of them, those whose end is not reported, so that their finalizer stays
	StuckFor     time.Duration // from the machine's end
}

// Default returns KubeVirt's options before v1.7, and no faults.
func Default() Options { return words.DefaultsOf[Options]() }

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	_, err := labels.Parse(o.Faults.Selector)
	if err != nil {
		err = fmt.Errorf("fault-selector: %w", err)
	}
	return errors.Join(o.Words().Check(), err)
}

// Words declares what a user may choose. The model reproduces what was published of a
// density test on one node of 48 processors: about one minute for 50 instances in the
// worst case, and growth that is linear in their number. Six machines start at the same
// time, in 4 s each: 1.4 a second.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Custom(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of each node", words.Default("5/10", "")), // virt-handler's before v1.7
		words.Of(&o.Threads, "threads", "`NUMBER` of workers of each node", words.Default(10, "")).AtLeast(1),
		words.Of(&o.Starts, "starts", "what a start of a machine occupies beside --concurrency",
			words.Default(StartsWorker, "a worker of its node, until the machine runs"), words.Or(StartsSlot, "nothing")),
		words.Of(&o.Nodes, "nodes", "label `SELECTOR` of the nodes that get an agent; default all; in a cluster that is not the run's own, only nodes of the run"),
		words.Of(&o.Scope, "scope", "instances that each agent watches",
			words.Default(ScopeNode, "those of its node"), words.Or(ScopeCluster, "every instance of the cluster, too")),
		words.Of(&o.MaxDevices, "max-devices", "maximum `NUMBER` of machines on a node", words.Default(1000, "")).AtLeast(1),
		words.Of(&o.Heartbeat, "heartbeat", "`DURATION` between heartbeats of a node, with jitter up to 2.2 times as long", words.Default(time.Minute, "")).Above(0),
		words.Of(&o.Hypervisor, "hypervisor", "what runs machines, a model or one empty QEMU process for each",
			words.Default(HypervisorModel, ""), words.Or(HypervisorQEMU, "")),
		words.Of(&o.StatusSubresource, "status-subresource", "write the status of instances to their status subresource", words.Default(false, "")),
		words.Of(&o.Events, "events", "write event objects", words.Default(true, "")),
		words.Of(&o.QEMUTimeout, "qemu-timeout", "`DURATION` after which a machine that has not started is given up; 0: never", words.Default(4*time.Minute, "")).AtLeast(0),
		words.Of(&o.Seed, "seed", "`SEED` of the simulated durations and faults", words.Default(uint64(1), "")),
		words.Of(&o.Model.Concurrency, "concurrency", "model: `NUMBER` of machines that start or unmount at the same time on a node", words.Default(6, "")).AtLeast(1),
		words.Of(&o.Model.Start, "start", "model: median `DURATION` of the start of a machine", words.Default(4*time.Second, "")).AtLeast(0),
		words.Of(&o.Model.Spread, "spread", "model: `SIGMA` of the logarithm of every duration, 0 to 3", words.Default(0.25, "")).AtLeast(0).AtMost(3),
		words.Of(&o.Model.Guest, "guest", "model: median `DURATION` until a guest reports its addresses", words.Default(5*time.Second, "")).AtLeast(0),
		words.Of(&o.Model.Stop, "stop", "model: median `DURATION` of a shutdown", words.Default(2*time.Second, "")).AtLeast(0),
		words.Of(&o.Model.Unmount, "unmount", "model: `DURATION` of an unmount", words.Default(200*time.Millisecond, "")).AtLeast(0),
		words.Of(&o.Model.Bandwidth, "bandwidth", "model: `BYTES` of guest memory that a migration copies per second", words.Default(int64(128<<20), "")).AtLeast(1),
		words.Of(&o.Faults.Selector, "fault-selector", "label `SELECTOR` of the instances that faults concern; default all"),
		words.Of(&o.Faults.UnmountShare, "unmount-failures", "`SHARE` of the selected instances whose disks cannot be unmounted, 0 to 1", words.Default(0.0, "")).AtLeast(0).AtMost(1),
		words.Of(&o.Faults.UnmountFor, "unmount-fails-for", "`DURATION` from the first attempt for which unmounts fail", words.Default(5*time.Minute, "")).AtLeast(0),
		words.Of(&o.Faults.UnmountTakes, "unmount-failure-takes", "`DURATION` of a failing attempt, which counts against --concurrency", words.Default(5*time.Second, "")).AtLeast(0),
		words.Of(&o.Faults.StuckShare, "stuck-finalizers", "`SHARE` of the selected instances whose finalizer stays, 0 to 1", words.Default(0.0, "")).AtLeast(0).AtMost(1),
		words.Of(&o.Faults.StuckFor, "stuck-for", "`DURATION` for which such a finalizer stays", words.Default(5*time.Minute, "")).AtLeast(0),
	}
}
