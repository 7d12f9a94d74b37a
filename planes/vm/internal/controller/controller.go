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
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/expectations"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// Options are what a controller is told.
type Options struct {
	Config            *rest.Config        // of its client; its rate limiter is replaced
	Limiter           *limiter.Reloadable // of all its calls
	Threads           int                 // workers on instances
	OtherThreads      int                 // workers on each other kind
	StatusSubresource bool                // instances have one
	DropNoopEvents    bool                // events that change nothing that is looked at are not queued
	Shard, Shards     int                 // does the Shard-th part, from 0, of Shards
	NoEvents          bool                // no event objects are written
	Launcher          launcher.Options
	Migrations        MigrationLimits
	Nodes             string        // label selector of the nodes whose heartbeats are looked at
	NodeTimeout       time.Duration // a node without heartbeat for so long is unresponsive
	Registry          *instrument.Registry
	Clock             clock.Clock
	Log               *slog.Logger
}

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	var errs []error
	if o.Threads < 1 || o.OtherThreads < 1 {
		errs = append(errs, fmt.Errorf("threads %d, other-threads %d: want at least 1 of each", o.Threads, o.OtherThreads))
	}
	if o.Launcher.OverheadRatio <= 0 {
		errs = append(errs, fmt.Errorf("overhead-ratio %g: want more than 0", o.Launcher.OverheadRatio))
	}
	if o.Launcher.QEMUTimeout < 0 || o.NodeTimeout <= 0 {
		errs = append(errs, fmt.Errorf("qemu-timeout %v, node-timeout %v: want 0 or more, and more than 0", o.Launcher.QEMUTimeout, o.NodeTimeout))
	}
	if o.Migrations.PerCluster < 1 || o.Migrations.PerSource < 1 {
		errs = append(errs, fmt.Errorf("migrations-per-cluster %d, migrations-per-source %d: want at least 1 of each", o.Migrations.PerCluster, o.Migrations.PerSource))
	}
	return errors.Join(errs...)
}

// resync is how often everything is looked at without an event.
const resync = 12 * time.Hour

// Controller is a running controller.
type Controller struct {
	o        Options
	client   *api.Client
	scheme   *runtime.Scheme
	events   record.EventRecorder
	phases   *transitionTimes
	pods     *expectations.Expectations // by key of instance or migration
	children *expectations.Expectations // instances, by key of machine

	instances, machines, migrations, launchers, nodes, installations cache.SharedIndexInformer

	placing sync.Mutex // of migrations

	instanceLoop, machineLoop, migrationLoop, nodeLoop *loop.Loop
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
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	c.startEvents(broadcaster)
	defer broadcaster.Shutdown()
	var wait sync.WaitGroup
	defer wait.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.addHandlers(); err != nil {
		return err
	}
	if err := loop.Start(ctx, &wait, c.instances, c.machines, c.migrations, c.launchers, c.nodes, c.installations); err != nil {
		return ignoreEnd(ctx, err)
	}
	for _, l := range []*loop.Loop{c.instanceLoop, c.machineLoop, c.migrationLoop, c.nodeLoop} {
		wait.Go(func() { l.Run(ctx) })
	}
	o.Log.Info("controller runs", "limiter", o.Limiter.Rate().String(), "threads", o.Threads, "shard", o.Shard, "shards", o.Shards)
	o.Registry.Ready()
	<-ctx.Done()
	return nil
}

// ignoreEnd is no error when the caller ended it.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// newController makes what a controller consists of.
func newController(o Options) (*Controller, error) {
	config := rest.CopyConfig(o.Config)
	config.RateLimiter = o.Limiter
	config.UserAgent = "windtunnel-vm-controller"
	config.Timeout = 0 // watches are open for long
	o.Registry.Watch(config)
	scheme := api.Scheme()
	client, err := api.NewClient(config, scheme)
	if err != nil {
		return nil, fmt.Errorf("vm-controller: %w", err)
	}
	c := &Controller{
		o: o, client: client, scheme: scheme, phases: newTransitionTimes(o.Registry, o.Clock),
		pods: expectations.New(o.Clock), children: expectations.New(o.Clock),
		instances:     client.Instances.Informer("", resync, cache.Indexers{byNode: indexNode}),
		machines:      client.Machines.Informer("", resync, nil),
		migrations:    client.Migrations.Informer("", resync, cache.Indexers{byInstance: indexInstance}),
		installations: client.Installations.Informer("", resync, nil),
		launchers: api.CoreInformer(client.Core, "pods", api.LabelApp, api.InformerOptions{
			Example: &corev1.Pod{}, Resync: resync, Indexers: cache.Indexers{byOwner: indexLabel(api.LabelCreatedBy), byJob: indexLabel(api.LabelMigrationJob)},
		}),
		nodes: api.CoreInformer(client.Core, "nodes", o.Nodes, api.InformerOptions{Example: &corev1.Node{}, Resync: resync}),
	}
	c.instanceLoop = c.newLoop("virt-controller-vmi", o.Threads, c.reconcileInstance)
	c.machineLoop = c.newLoop("virt-controller-vm", o.OtherThreads, c.reconcileMachine)
	c.migrationLoop = c.newLoop("virt-controller-migration", o.OtherThreads, c.reconcileMigration)
	c.nodeLoop = c.newLoop("virt-controller-node", o.OtherThreads, c.reconcileNode)
	return c, nil
}

func (c *Controller) newLoop(name string, threads int, f func(context.Context, string) error) *loop.Loop {
	return loop.New(loop.Options{Name: name, Threads: threads, Metrics: c.o.Registry.Queues(), Reconcile: f, Log: c.o.Log})
}

// wallNow returns the wall time, for stamps.
func (c *Controller) wallNow() time.Time { return c.o.Clock.Wall(c.o.Clock.Now()) }

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
	return []string{m.Namespace + "/" + m.Spec.VMIName}, nil
}
