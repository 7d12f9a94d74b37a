package tree

import (
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// The words of the options; Words says what they do.
const (
	ReadsPerNode = "live-per-node"
	ReadsLive    = "live"
	ReadsCached  = "cached"

	QueueShared = "shared"
	QueueMember = "member"

	LookupScan = "scan"
	LookupMap  = "map"

	Always  = "always"
	Changed = "changed"

	GuardNone = "none"
	GuardUID  = "uid"

	EnvList   = "list"
	EnvCached = "cached"
	EnvOff    = "off"

	DependentsLive   = "live"
	DependentsCached = "cached"

	UnjoinCluster = "cluster"
	UnjoinLeaves  = "leaves"

	ImportOff    = "off"
	ImportMCS    = "mcs"
	ImportDirect = "direct"

	ImportEndOwn = "import"
	ImportEndAll = "all"

	DiscoverAll   = "all"
	DiscoverRoots = "roots"

	RenewalsFromEnd   = "end"
	RenewalsFromBegin = "begin"

	ElectionLease = "lease"
	ElectionNone  = "none"

	RetryFixed = "fixed"
	RetryGrows = "grows"
)

// Options are what a tree is told.
type Options struct {
	process.Env    // whose configuration is that of the hub
	LeafReads      string
	PodWorkers     int // of each queue of pods
	PodQueue       string
	StatusWorkers  int // of each member, for pods' statuses up
	NodeWorkers    int // of each member, for leases and statuses of nodes
	JoinWorkers    int
	NodeLookup     string
	NodePatch      string
	StatusPut      string
	StatusGuard    string
	ServiceEnv     string
	Dependents     string
	Unjoin         string
	Retry          string
	Import         string
	ImportEnd      string
	Limiter        limiter.Rate // of each of the many limiters, on the hub and on each member
	RequestTimeout time.Duration
	LeaseInterval  time.Duration
	LeaseDuration  time.Duration
	StatusInterval time.Duration
	NodeReads      int // of a virtual node for a status
	Discovery      string
	Renewals       string
	Election       string // what a manager waits for before Run
}

// presetMain is what Kosmos' branch main did in March 2025, which no release contains.
const presetMain = "main"

// Default returns the semantics of Kosmos v0.5.5.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose: Kosmos' value is the default, of which the
// text says what it costs. The limiter is in no preset: a comparison is one of
// mechanisms, at the same rate.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Custom(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of each client, for the host and for each member", words.Default("40/60", "")),
		words.Of(&o.LeafReads, "leaf-reads", "what the status of a virtual node is computed from",
			words.Default(ReadsPerNode, "for the status of a virtual node that stands for all n nodes of a member, n+3 lists, for that of one node, 2"),
			words.Improved(ReadsCached, "no lists"),
			words.Or(ReadsLive, "a pass over a member's virtual nodes lists its nodes and its pods once")),
		words.Of(&o.PodWorkers, "pod-workers", "`NUMBER` of workers of each queue of pods for members", words.Default(1, ""), words.Improved(8, "")).AtLeast(1),
		words.Of(&o.PodQueue, "pod-queue", "queues of pods for members",
			words.Default(QueueShared, "one queue for all pods of the host: a member that does not answer blocks all others, and a pod whose ConfigMap is missing holds the worker without a pause"),
			words.Improved(QueueMember, "one queue for each member")),
		words.Of(&o.StatusWorkers, "status-workers", "`NUMBER` of workers of each member for pod statuses", words.Default(1, ""), words.Improved(4, "")).AtLeast(1),
		words.Of(&o.NodeWorkers, "node-workers", "`NUMBER` of workers of each member for virtual nodes", words.Default(1, ""), words.Improved(4, "")).AtLeast(1),
		words.Of(&o.JoinWorkers, "join-workers", "`NUMBER` of members that join at the same time", words.Default(1, ""), words.Improved(16, "")).AtLeast(1),
		words.Of(&o.NodeLookup, "node-lookup", "how the member of a virtual node is found",
			words.Default(LookupScan, "the deletion of a pod takes n searches among n virtual nodes"),
			words.Improved(LookupMap, "one lookup")),
		words.Of(&o.NodePatch, "node-patch", "when virtual nodes are patched",
			words.Default(Always, "each event of any of a member's pods patches all of its virtual nodes twice, but the events of one node that wait at the same time once; a virtual node that somebody deletes is not made again"),
			words.Improved(Changed, "when they differ; a deleted one is made again")),
		words.Of(&o.StatusPut, "status-put", "when statuses of pods are written",
			words.Default(Always, "a manager that restarts writes the status of every pod"),
			words.Improved(Changed, "when they differ")),
		words.Of(&o.StatusGuard, "status-guard", "how a pod of a member is matched with the host's",
			words.Default(GuardNone, "by name alone: a pod whose name is taken in the member for ten seconds never runs nor ends, one that is being deleted is deleted again at each event of the host's pod, and a claim that is created again gets the volume of the one before"),
			words.Improved(GuardUID, "by UID")),
		words.Of(&o.ServiceEnv, "service-env", "where the environment variables of services come from",
			words.Default(EnvList, "a list of all services of the host, for each container"),
			words.Improved(EnvCached, "a cache"),
			words.Or(EnvOff, "containers get none")),
		words.Of(&o.Dependents, "dependents", "how the ConfigMaps, Secrets and claims of a pod are read",
			words.Default(DependentsLive, "for each pod from the host, where they are also written, and from the member; changes are read twice; copies of what the host deleted while no manager ran stay"),
			words.Improved(DependentsCached, "from caches; such copies are deleted when the manager starts")),
		words.Of(&o.Unjoin, "unjoin", "which nodes are deleted when a member leaves",
			words.Default(UnjoinCluster, "the node with the cluster's own name, which does not exist; pods stay in the member and on the host"),
			words.Improved(UnjoinLeaves, "the member's virtual nodes; pods stay in the member")),
		words.Of(&o.Retry, "retry", "delay before a failed key is retried",
			words.Default(RetryFixed, "10 s"),
			words.Improved(RetryGrows, "from 0.1 s to 10 s")),
		words.Of(&o.Import, "import", "how members get the services that they import",
			words.Default(ImportOff, "not at all"),
			words.Or(ImportMCS, "a change of one slice of a service writes the service, all slices and the import in each importing member"),
			words.Or(ImportDirect, "a change of one slice writes that slice")),
		words.Of(&o.ImportEnd, "import-end", "when imported services are deleted",
			words.Default(ImportEndOwn, "with the ServiceImport; what the host deletes stays in members, and a member's own service of the same name is overwritten and deleted too"),
			words.Improved(ImportEndAll, "also with the ServiceExport, the service or the slice on the host; a member's own service stays, and the import waits for its name")),
		words.Of(&o.RequestTimeout, "request-timeout", "timeout of requests other than watches; 0: none",
			words.Default(time.Duration(0), "none: a call to a member that does not answer ends with HTTP/2's own ping, after 45 s"),
			words.Improved(5*time.Second, "")).AtLeast(0),
		words.Of(&o.LeaseInterval, "lease-interval", "`DURATION` between renewals of virtual nodes' leases", words.Default(10*time.Second, "")).Above(0),
		words.Of(&o.LeaseDuration, "lease-duration", "lease `DURATION` of virtual nodes", words.Default(40*time.Second, "")).Above(0),
		words.Of(&o.StatusInterval, "status-interval", "`DURATION` between checks of the status of virtual nodes",
			words.Default(60*time.Second, ""), words.In(presetMain, 10*time.Second, ""), words.Improved(10*time.Second, "")).Above(0),
		words.Of(&o.Discovery, "discovery", "what a member is asked of its API when it joins",
			words.Default(DiscoverAll, "each group and version"), words.Improved(DiscoverRoots, "/api and /apis")),
		words.Of(&o.NodeReads, "node-reads", "`NUMBER` of times that a virtual node of more than one node is read for each status",
			words.Default(1, ""), words.In(presetMain, 2, "")).AtLeast(1).AtMost(2),
		words.Of(&o.Renewals, "renewals", "from when on the intervals of leases and statuses count",
			words.Default(RenewalsFromEnd, "from the end of a round, so that leases grow late as rounds grow long; a new lease is renewed at once"),
			words.Improved(RenewalsFromBegin, "from the begin of a round")),
		words.Of(&o.Election, "leader-election", "what the manager waits for before it works",
			words.Default(ElectionLease, "its lease on the host, which it reads and writes every 2 s; after a kill, the next manager waits until the lease has expired, 15 to 19 s"),
			words.Improved(ElectionNone, "nothing")),
	}
}

// retryLimiter returns when a key that failed goes again.
func (o *Options) retryLimiter() workqueue.TypedRateLimiter[string] {
	const most = 10 * time.Second
	if o.Retry == RetryGrows {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, most)
	}
	return workqueue.NewTypedItemFastSlowRateLimiter[string](most, most, 0)
}
