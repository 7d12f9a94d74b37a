// Package controller is the VM plane's controller, the part of KubeVirt's
// virt-controller that the plane needs: it gives machines their instances,
// instances their launcher pods, hands instances over to the node's agent when
// their pod runs, moves them between nodes, and lets go of them at the end.
//
// It is a real controller on a real API server: informers, rate-limiting work
// queues, expectations, one client with one rate limit that can change while it
// runs. It keeps nothing that matters in memory: killed at any moment, the next
// one goes on from what the server holds.
package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedapps "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/planes/internal/kit/expectations"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/lease"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/unseen"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// resync is how often everything is looked at without an event.
const resync = 12 * time.Hour

// Controller is a running controller.
type Controller struct {
	o         Options
	client    *api.Client
	lease     *lease.Lease // nil: it works at once
	revisions typedapps.ControllerRevisionsGetter
	limiter   *limiter.Reloadable // of all calls but those of a lease of its own
	scheme    *runtime.Scheme
	events    record.EventRecorder
	phases    *transitionTimes
	pods      *expectations.Expectations // by key of instance or migration
	children  *expectations.Expectations // instances, by key of machine
	unseen    *unseen.Writes             // by key of instance

	instances, machines, migrations, launchers, nodes, installations cache.SharedIndexInformer

	placing sync.Mutex // of migrations

	instanceLoop, machineLoop, snapshotLoop, migrationLoop, nodeLoop *loop.Loop
}

// The indices of the caches.
const (
	byOwner    = "owner"    // pods: uid of the instance
	byNode     = "node"     // instances: node
	byInstance = "instance" // migrations: key of the instance
	byJob      = "job"      // pods: uid of the migration that they are the target of
)

// Run runs a controller until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	if c.lease == nil {
		return c.run(ctx)
	}
	return c.lease.Hold(ctx, o.Env, c.run)
}

func (c *Controller) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	c.startEvents(broadcaster)
	defer broadcaster.Shutdown()
	o := c.o
	return o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if err := c.addHandlers(); err != nil {
			return err
		}
		if err := g.Sync(ctx, c.instances, c.machines, c.migrations, c.launchers, c.nodes, c.installations); err != nil {
			return err
		}
		g.Run(ctx, c.instanceLoop, c.machineLoop, c.snapshotLoop, c.migrationLoop, c.nodeLoop)
		o.Log.Info("controller runs", "limiter", o.Limiter.String(), "threads", o.Threads, "shard", o.Shard, "shards", o.Shards)
		return nil
	})
}

// newController makes what a controller consists of.
func newController(o Options) (*Controller, error) {
	o.Launcher.NoGate = o.Rules.Gate == GateNone
	limit := limiter.New(o.Limiter)
	if o.SeparateLimits {
		limit = limiter.NewNamed(o.Limiter)
	}
	o.Registry.Handle("/limiter", limit)
	config := rest.CopyConfig(o.Config)
	config.RateLimiter = limit
	config.Timeout = 0 // watches are open for long
	o.Registry.Watch(config)
	scheme := api.Scheme()
	client, err := api.NewClient(config, scheme)
	if err != nil {
		return nil, fmt.Errorf("vm-controller: %w", err)
	}
	revisions, err := typedapps.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("vm-controller: %w", err)
	}
	nodes := install.Own("") // in a cluster of others those of the run
	c := &Controller{
		o: o, client: client, revisions: revisions, limiter: limit, scheme: scheme, phases: newTransitionTimes(o.Registry, o.Clock),
		pods: expectations.New(o.Clock), children: expectations.New(o.Clock),
		instances:     client.Instances.Informer("", resync, cache.Indexers{byNode: indexNode}),
		machines:      client.Machines.Informer("", resync, nil),
		migrations:    client.Migrations.Informer("", resync, cache.Indexers{byInstance: indexInstance}),
		installations: client.Installations.Informer("", resync, nil),
		launchers: resource.New[*corev1.Pod](client.Core.RESTClient(), "pods").Informer(api.LabelApp, resync, cache.Indexers{
			byOwner: indexLabel(api.LabelCreatedBy), byJob: indexLabel(api.LabelMigrationJob),
		}),
		nodes: resource.New[*corev1.Node](client.Core.RESTClient(), "nodes").Informer(nodes, resync, nil),
	}
	switch o.Election {
	case ElectionOwn:
		c.lease = &lease.Lease{Name: leaseName, Config: o.Config}
	case ElectionShared:
		c.lease = &lease.Lease{Name: leaseName, Config: config, Reads: true}
	}
	c.instanceLoop = o.Loop("virt-controller-vmi", o.Threads, c.reconcileInstance)
	c.unseen = unseen.New(o.Clock, c.instanceLoop.Queue.Add)
	c.machineLoop = o.Loop("virt-controller-vm", o.OtherThreads, c.reconcileMachine)
	c.snapshotLoop = o.Loop("virt-controller-snapshot-vm", o.OtherThreads, c.reconcileSnapshots)
	c.migrationLoop = o.Loop("virt-controller-migration", o.OtherThreads, c.reconcileMigration)
	c.nodeLoop = o.Loop("virt-controller-node", o.OtherThreads, c.reconcileNode)
	return c, nil
}

// indexLabel indexes pods by a label.
func indexLabel(key string) cache.IndexFunc {
	return func(o any) ([]string, error) {
		if value := o.(*corev1.Pod).Labels[key]; value != "" {
			return []string{value}, nil
		}
		return nil, nil
	}
}

func indexNode(o any) ([]string, error) {
	if node := o.(*api.Instance).Status.NodeName; node != "" {
		return []string{node}, nil
	}
	return nil, nil
}

func indexInstance(o any) ([]string, error) {
	m := o.(*api.Migration)
	return []string{m.InstanceKey()}, nil
}
