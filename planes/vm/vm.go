// Package vm is the VM plane, the first reference plane under test: KubeVirt's
// mechanisms as far as its published scale tests turn on them, with real
// controllers on a real API server. What is modelled and what is real,
// docs/how-to/reproducing-kubevirt-density.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/vm) and by people who want to look closer.
package vm

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/vm/internal/agent"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/controller"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
	"github.com/windtunnel/windtunnel/planes/vm/internal/webhook"
)

// metricPrefix is that of KubeVirt's own metrics, whose names the plane keeps.
const metricPrefix = "kubevirt"

// Verbs returns the processes of the plane. The defaults of their flags are
// KubeVirt's after the published scale test: the controller's limit 200/400, the
// agents' 5/10.
func Verbs(host cli.Host) []*cobra.Command {
	return []*cobra.Command{controllerVerb(host), agentVerb(host), webhookVerb(host)}
}

func controllerVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), controller.Options{
		Launcher:   launcher.Options{Image: "quay.io/kubevirt/virt-launcher:v1.6.0"},
		Migrations: controller.DefaultMigrationLimits(),
	}
	rate, events := limiter.Rate{QPS: 200, Burst: 400}, true
	verb := p.Verb("vm-controller", "Run the controller of the VM plane", metricPrefix, func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-vm-controller"), p.Registry, p.Clock, p.Log
		o.Shard, o.Shards, o.NoEvents = p.Shard, p.Shards, !events
		o.Limiter = limiter.New(rate)
		o.Nodes = install.Own("")
		if err := o.Validate(); err != nil {
			return err
		}
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if err := api.Install(ctx, o.Config, o.StatusSubresource); err != nil {
				return err
			}
			return controller.Run(ctx, o)
		}, instrument.Route{Path: "/limiter", Handler: o.Limiter})
	})
	f := verb.Flags()
	f.Var(&rate, "limiter", "client-side rate limit `QPS/BURST`; PUT /limiter, or a KubeVirt object, changes it at run time")
	f.IntVar(&o.Threads, "threads", 10, "workers on instances")
	f.IntVar(&o.OtherThreads, "other-threads", 3, "workers on machines, on migrations and on nodes")
	f.BoolVar(&o.StatusSubresource, "status-subresource", false, "define one for instances")
	f.BoolVar(&o.DropNoopEvents, "drop-noop-events", false, "do not queue events that change nothing that is looked at")
	f.BoolVar(&events, "events", true, "write event objects")
	f.StringVar(&o.Launcher.Image, "launcher-image", o.Launcher.Image, "`IMAGE` of launcher pods; nothing runs it")
	f.Float64Var(&o.Launcher.OverheadRatio, "overhead-ratio", 1, "times the memory overhead of launcher pods")
	f.DurationVar(&o.Launcher.QEMUTimeout, "qemu-timeout", 240e9, "how long a launcher waits for its machine")
	f.BoolVar(&o.Launcher.AllowEmulated, "allow-emulation", false, "launcher pods ask for no KVM device")
	f.DurationVar(&o.NodeTimeout, "node-timeout", 300e9, "a node without heartbeat for so long is unresponsive")
	f.IntVar(&o.Migrations.PerCluster, "migrations-per-cluster", o.Migrations.PerCluster, "at the same time")
	f.IntVar(&o.Migrations.PerSource, "migrations-per-source", o.Migrations.PerSource, "at the same time from one node")
	return verb
}

func agentVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), agent.Options{Limiter: limiter.Rate{QPS: 5, Burst: 10}, Model: agent.DefaultModel()} // 5/10: virt-handler's before v1.7
	events := true
	verb := p.Verb("vm-agent", "Run the node agents of the VM plane", metricPrefix, func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-vm-agent"), p.Registry, p.Clock, p.Log
		o.Shard, o.Shards, o.NoEvents = p.Shard, p.Shards, !events
		o.Nodes = install.Own(o.Nodes)
		if err := o.Validate(); err != nil {
			return err
		}
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if err := api.Served(ctx, o.Config); err != nil {
				return err
			}
			return agent.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.Var(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of each node")
	f.IntVar(&o.Threads, "threads", 10, "workers of each node")
	f.StringVar(&o.Nodes, "nodes", "", "label `selector` of the nodes that get an agent; default all; in a cluster that is not the run's own, only nodes of the run")
	f.StringVar(&o.Scope, "scope", agent.ScopeNode, "what each agent watches: node, or cluster (also every instance that there is)")
	f.IntVar(&o.MaxDevices, "max-devices", 1000, "machines that fit on a node")
	f.DurationVar(&o.Heartbeat, "heartbeat", 60e9, "`DURATION` between heartbeats of a node, with jitter up to 2.2 times as long")
	f.StringVar(&o.Hypervisor, "hypervisor", agent.HypervisorModel, "model, or qemu: one empty QEMU process for each machine")
	f.BoolVar(&o.StatusSubresource, "status-subresource", false, "instances have one")
	f.BoolVar(&events, "events", true, "write event objects")
	f.DurationVar(&o.QEMUTimeout, "qemu-timeout", 240e9, "a machine that has not started by then is given up; 0: never")
	f.Uint64Var(&o.Seed, "seed", 1, "`SEED` of the simulated durations and faults")
	f.IntVar(&o.Model.Concurrency, "concurrency", o.Model.Concurrency, "model: machines started or unmounted at the same time on a node")
	f.DurationVar(&o.Model.Start, "start", o.Model.Start, "model: median time to start a machine")
	f.Float64Var(&o.Model.Spread, "spread", o.Model.Spread, "model: sigma of the logarithm of every time")
	f.DurationVar(&o.Model.Guest, "guest", o.Model.Guest, "model: median time until a guest says its addresses")
	f.DurationVar(&o.Model.Stop, "stop", o.Model.Stop, "model: median time of a shutdown")
	f.DurationVar(&o.Model.Unmount, "unmount", o.Model.Unmount, "model: time of an unmount")
	f.Int64Var(&o.Model.Bandwidth, "bandwidth", o.Model.Bandwidth, "model: bytes per second of a migration")
	f.StringVar(&o.Faults.Selector, "fault-selector", "", "label `selector` of the instances that faults concern")
	f.Float64Var(&o.Faults.UnmountShare, "unmount-failures", 0, "share of them whose disks cannot be unmounted")
	f.DurationVar(&o.Faults.UnmountFor, "unmount-fails-for", 300e9, "from the first attempt")
	f.DurationVar(&o.Faults.UnmountTakes, "unmount-failure-takes", 5e9, "how long each failing attempt holds a turn")
	f.Float64Var(&o.Faults.StuckShare, "stuck-finalizers", 0, "share of them whose finalizer stays")
	f.DurationVar(&o.Faults.StuckFor, "stuck-for", 300e9, "how long it stays")
	return verb
}

func webhookVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), webhook.Options{}
	verb := p.Verb("vm-webhook", "Run the admission webhook of the VM plane", metricPrefix, func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-vm-webhook"), p.Registry, p.Clock, p.Log
		return p.Serve(ctx, func() error { return webhook.Run(ctx, o) })
	})
	verb.Flags().StringVar(&o.Listen, "admission-listen", "127.0.0.1:0", "`HOST:PORT` of the admission webhook, TLS")
	verb.Flags().BoolVar(&o.CreateOnly, "create-only", false, "later writes of instances do not pass through it")
	return verb
}
