package controller

import (
	"time"

	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// What a controller waits for before it works.
const (
	ElectionOwn    = "own"    // its lease, which it writes by a client of its own
	ElectionShared = "shared" // its lease, which it reads and writes by the client of all calls
	ElectionNone   = "none"   // nothing
)

// What queues a node.
const (
	NodesByInstance = "instances" // its own events, and each event of an instance on it
	NodesByNode     = "nodes"     // its own events
)

const leaseName = "virt-controller"

// Options are what a controller is told.
type Options struct {
	process.Env
	Limiter           limiter.Rate // of all calls
	SeparateLimits    bool         // calls on KubeVirt's kinds have one limit, all others another
	Election          string       // what a controller waits for before it works
	NodeQueue         string       // what queues a node
	Threads           int          // workers on instances
	OtherThreads      int          // workers on each other kind
	StatusSubresource bool         // instances have one
	DropNoopEvents    bool         // events that change nothing that is looked at are not queued
	Events            bool         // event objects are written
	Rules             Rules
	Launcher          launcher.Options
	Migrations        MigrationLimits
	NodeTimeout       time.Duration // a node without heartbeat for so long is unresponsive
}

// Default returns KubeVirt's options.
func Default() Options {
	o := Options{Migrations: DefaultMigrationLimits()}
	o.Words().Reset()
	return o
}

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	on, off := words.Default(true, ""), words.Default(false, "")
	return words.Set{
		words.Custom(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of all requests; PUT /limiter, or a KubeVirt object, changes it at run time",
			words.Default("200/400", ""), words.In(api.PresetV049, "20/30", ""), words.In(api.PresetV044, "5/10", "")),
		words.Of(&o.SeparateLimits, "separate-limits", "apply the rate limit to requests on machines, instances and migrations, and to all others, each on its own", off, words.In(api.PresetV044, true, "")),
		words.Of(&o.Election, "leader-election", "requests for the lease that the controller works with", words.Default(ElectionOwn, "a write every 2 s by a client of its own"),
			words.In(api.PresetV049, ElectionShared, "a read and a write every 2 s, under the limit of all requests"),
			words.In(api.PresetV044, ElectionShared, "a read and a write every 2 s, under the limit of pods and events"), words.Improved(ElectionNone, "none: it works at once")),
		words.Of(&o.Rules.Versions, "version-annotations", "write the API versions that were seen into the annotations of machines and instances, before anything else happens to them", on, words.Improved(false, "")),
		words.Of(&o.Rules.NoPod, "no-pod-condition", "write that an instance has no pod yet as a condition", off, words.In(api.PresetV049, true, ""), words.In(api.PresetV044, true, "")),
		words.Of(&o.Rules.Class, "qos-class", "write the class of service of a pod that does not run yet", on, words.Improved(false, "")),
		words.Of(&o.Rules.PodLabel, "pod-node-label", "write the node's name into a pod's labels", on, words.In(api.PresetV049, false, ""), words.In(api.PresetV044, false, ""), words.Improved(false, "")),
		words.Of(&o.Rules.Gate, "gate", "when a pod's readiness gate is opened", words.Default(GateAtOnce, "as soon as there is the pod"),
			words.In(api.PresetV044, GateNone, "pods have no gate"), words.Or(GateRunning, "when its containers run")),
		words.Of(&o.Rules.FormerFinalizer, "former-finalizer", "give instances, where the webhook is off, the finalizer by its former name, and leave that name as it is", off,
			words.In(api.PresetV049, true, ""), words.In(api.PresetV044, true, "")),
		words.Of(&o.NodeQueue, "node-queue", "what queues a node, whose heartbeat is looked at then", words.Default(NodesByInstance, "its own events, and each event of an instance on it"),
			words.Improved(NodesByNode, "its own events")),
		words.Of(&o.Rules.Machine.Finalizer, "machine-finalizer", "let a deleted machine wait for its instance, which the garbage collector deletes otherwise", on,
			words.In(api.PresetV049, false, ""), words.In(api.PresetV044, false, "")),
		words.Of(&o.Rules.Machine.Revision, "controller-revision", "write a ControllerRevision for each start of a machine", on,
			words.In(api.PresetV044, false, ""), words.Improved(false, "")),
		words.Of(&o.Rules.Machine.Status, "machine-status", "what a machine's status says", words.Default(StatusAll, "a copy of each condition of its instance"),
			words.In(api.PresetV044, StatusReady, "the Ready condition of its instance"), words.Improved(StatusLate, "the Ready condition, once there is an instance")),
		words.Of(&o.Rules.Machine.Generations, "machine-generations", "write the run strategy of a machine, its generation and that of its instance into its status", on,
			words.In(api.PresetV049, false, ""), words.In(api.PresetV044, false, "")),
		words.Of(&o.Rules.Machine.Snapshots, "snapshot-status", "when the status of a machine's volumes is written", words.Default(SnapshotChanges, "when it changes"),
			words.In(api.PresetV049, SnapshotEvents, "on each event of the machine"), words.In(api.PresetV044, SnapshotEvents, "on each event of the machine"), words.Improved(SnapshotNone, "never")),
		words.Of(&o.Threads, "threads", "`NUMBER` of workers that reconcile instances", words.Default(10, "")).AtLeast(1),
		words.Of(&o.OtherThreads, "other-threads", "`NUMBER` of workers for each of machines, migrations and nodes", words.Default(3, "")).AtLeast(1),
		words.Of(&o.StatusSubresource, "status-subresource", "define instances with a status subresource, which KubeVirt's do not have", words.Default(false, "")),
		words.Of(&o.DropNoopEvents, "drop-noop-events", "do not queue events that change nothing that the controller reads", off, words.Improved(true, "")),
		words.Of(&o.Events, "events", "write event objects", words.Default(true, "")),
		words.Of(&o.Launcher.Image, "launcher-image", "`IMAGE` of launcher pods; nothing runs it", words.Default("quay.io/kubevirt/virt-launcher:v1.6.0", "")),
		words.Of(&o.Launcher.OverheadRatio, "overhead-ratio", "`FACTOR` by which the memory overhead of launcher pods is multiplied", words.Default(1.0, "")).Above(0),
		words.Of(&o.Launcher.QEMUTimeout, "qemu-timeout", "`DURATION` for which a launcher waits for its machine", words.Default(4*time.Minute, "")).AtLeast(0),
		words.Of(&o.Launcher.AllowEmulated, "allow-emulation", "request no KVM device for launcher pods", words.Default(false, "")),
		words.Of(&o.NodeTimeout, "node-timeout", "`DURATION` without a heartbeat after which a node is unresponsive", words.Default(5*time.Minute, "")).Above(0),
		words.Of(&o.Migrations.PerCluster, "migrations-per-cluster", "maximum `NUMBER` of migrations at the same time", words.Default(DefaultMigrationLimits().PerCluster, "")).AtLeast(1),
		words.Of(&o.Migrations.PerSource, "migrations-per-source", "maximum `NUMBER` of migrations at the same time from one node", words.Default(DefaultMigrationLimits().PerSource, "")).AtLeast(1),
	}
}
