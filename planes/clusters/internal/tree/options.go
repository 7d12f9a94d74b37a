package tree

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/internal/subject/kit/limiter"
)

// The words of the options. The first of each is Kosmos', and the default.
const (
	ReadsPerNode = "live-per-node" // the status of a leaf lists the member's nodes, and its pods for each of them
	ReadsLive    = "live"          // a pass over a member's leaves lists its nodes and its pods once
	ReadsCached  = "cached"        // it lists nothing

	QueueShared = "shared" // pods of all members wait for the same workers
	QueueMember = "member" // those of each member have workers of their own

	LookupScan = "scan" // the leaf of a node is looked for among all leaves
	LookupMap  = "map"

	Always  = "always"  // written whether it differs or not
	Changed = "changed" // written when it differs

	GuardNone = "none" // a pod of the same name is taken for the same pod
	GuardUID  = "uid"

	EnvList   = "list" // the host's services are listed for each container
	EnvCached = "cached"
	EnvOff    = "off" // containers get no variables of services

	DependentsLive   = "live" // what a pod needs is read from host and member, and the host's is written, for each pod
	DependentsCached = "cached"

	UnjoinCluster = "cluster" // the node that has the cluster's own name is deleted, which none has
	UnjoinLeaves  = "leaves"

	ImportOff    = "off"    // services stay where they are
	ImportMCS    = "mcs"    // a change of one slice of a service writes the service, all slices and the import in each importing member
	ImportDirect = "direct" // it writes that slice

	ImportEndOwn = "import" // what a ServiceImport brought goes with it; what the host takes back stays
	ImportEndAll = "all"    // it also goes with the ServiceExport, the service and, a slice, with the host's; somebody else's objects of these names are left alone

	RetryFixed = "fixed" // 10 s after a failure
	RetryGrows = "grows" // from 0.1 s to 10 s
)

// Options are what a tree is told.
type Options struct {
	Config         *rest.Config // of the host
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
	Limiter        limiter.Rate // of each of the many limiters, on the host and on each member
	RequestTimeout time.Duration
	LeaseInterval  time.Duration
	LeaseDuration  time.Duration
	StatusInterval time.Duration
	Registry       *instrument.Registry
	Clock          clock.Clock
	Log            *slog.Logger
}

// Default returns Kosmos' semantics.
func Default() Options {
	return Options{
		LeafReads: ReadsPerNode, PodWorkers: 1, PodQueue: QueueShared, StatusWorkers: 1, NodeWorkers: 1, JoinWorkers: 1, NodeLookup: LookupScan,
		NodePatch: Always, StatusPut: Always, StatusGuard: GuardNone, ServiceEnv: EnvList, Dependents: DependentsLive, Unjoin: UnjoinCluster,
		Retry: RetryFixed, Import: ImportOff, ImportEnd: ImportEndOwn, Limiter: limiter.Rate{QPS: 40, Burst: 60},
		LeaseInterval: 10 * time.Second, LeaseDuration: 40 * time.Second, StatusInterval: 10 * time.Second,
	}
}

// Improved are the flags of the preset of that name, with their values. The limiter
// is not among them: a comparison is one of mechanisms, at the same rate.
func Improved() map[string]string {
	return map[string]string{
		"leaf-reads": ReadsCached, "pod-workers": "8", "pod-queue": QueueMember, "status-workers": "4", "node-workers": "4", "join-workers": "16",
		"node-lookup": LookupMap, "node-patch": Changed, "status-put": Changed, "status-guard": GuardUID, "service-env": EnvCached,
		"dependents": DependentsCached, "unjoin": UnjoinLeaves, "import-end": ImportEndAll, "retry": RetryGrows, "request-timeout": "5s",
	}
}

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	var errs []error
	for _, c := range []struct {
		flag, value string
		words       []string
	}{
		{"leaf-reads", o.LeafReads, []string{ReadsPerNode, ReadsLive, ReadsCached}},
		{"pod-queue", o.PodQueue, []string{QueueShared, QueueMember}},
		{"node-lookup", o.NodeLookup, []string{LookupScan, LookupMap}},
		{"node-patch", o.NodePatch, []string{Always, Changed}},
		{"status-put", o.StatusPut, []string{Always, Changed}},
		{"status-guard", o.StatusGuard, []string{GuardNone, GuardUID}},
		{"service-env", o.ServiceEnv, []string{EnvList, EnvCached, EnvOff}},
		{"dependents", o.Dependents, []string{DependentsLive, DependentsCached}},
		{"unjoin", o.Unjoin, []string{UnjoinCluster, UnjoinLeaves}},
		{"import", o.Import, []string{ImportOff, ImportMCS, ImportDirect}},
		{"import-end", o.ImportEnd, []string{ImportEndOwn, ImportEndAll}},
		{"retry", o.Retry, []string{RetryFixed, RetryGrows}},
	} {
		if !slices.Contains(c.words, c.value) {
			errs = append(errs, fmt.Errorf("%s %q: want one of %v", c.flag, c.value, c.words))
		}
	}
	if o.PodWorkers < 1 || o.StatusWorkers < 1 || o.NodeWorkers < 1 || o.JoinWorkers < 1 {
		errs = append(errs, errors.New("pod-workers, status-workers, node-workers, join-workers: want at least 1 of each"))
	}
	if o.LeaseInterval <= 0 || o.LeaseDuration <= 0 || o.StatusInterval <= 0 {
		errs = append(errs, errors.New("lease-interval, lease-duration, status-interval: want more than 0"))
	}
	if o.RequestTimeout < 0 {
		errs = append(errs, errors.New("request-timeout: want 0 or more"))
	}
	return errors.Join(append(errs, o.Limiter.Validate())...)
}

// retry returns when a key that failed goes again.
func (o *Options) retry() workqueue.TypedRateLimiter[string] {
	const most = 10 * time.Second
	if o.Retry == RetryGrows {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, most)
	}
	return workqueue.NewTypedItemFastSlowRateLimiter[string](most, most, 0)
}
