package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/internal/subject/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/vm"
	"github.com/windtunnel/windtunnel/planes/vm/agent"
	"github.com/windtunnel/windtunnel/planes/vm/api"
	"github.com/windtunnel/windtunnel/planes/vm/controller"
	"github.com/windtunnel/windtunnel/planes/vm/launcher"
	"github.com/windtunnel/windtunnel/planes/vm/webhook"
)

// vmProcess is what the processes of the VM plane have in common.
type vmProcess struct {
	kubeconfig, listen, level string
	shard                     string
	endpoint                  endpoint.Endpoint
	registry                  *instrument.Registry
	clock                     clock.Clock
	log                       *slog.Logger
	index, shards             int // of shard
}

// vmVerbs are the processes of the VM plane. They are started by `subject: vm`
// and by people who want to look closer, so help does not list them.
func vmVerbs(env *environment) []*cobra.Command {
	return []*cobra.Command{vmControllerVerb(env), vmAgentVerb(env), vmWebhookVerb(env)}
}

// verb makes a verb whose run gets a connected process. It ends without an
// error when it is interrupted.
func (p *vmProcess) verb(env *environment, use, short string, run func(context.Context) error) *cobra.Command {
	verb := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, Hidden: true}
	verb.Flags().StringVar(&p.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "of the plane")
	verb.Flags().StringVar(&p.listen, "listen", "127.0.0.1:0", "`host:port` of /metrics, /healthz and /readyz; the address is printed")
	verb.Flags().StringVar(&p.level, "log-level", "info", "debug, info, warn or error")
	verb.Flags().StringVar(&p.shard, "shard", "1/1", "do the K-th part of S, `K/S` from 1")
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := env.interruptible(cmd.Context(), "stopping", func() { os.Exit(exitUnknown) })
		defer cancel()
		if err := p.prepare(env.stderr); err != nil {
			return err
		}
		err := run(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	return verb
}

func (p *vmProcess) prepare(logs io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	if _, err := fmt.Sscanf(p.shard, "%d/%d", &p.index, &p.shards); err != nil || p.index < 1 || p.index > p.shards {
		return fmt.Errorf("--shard %q: want K/S such as 1/3, K from 1 to S", p.shard)
	}
	p.index--
	if p.kubeconfig == "" {
		return errors.New("--kubeconfig: none given, and KUBECONFIG is empty")
	}
	var err error
	if p.endpoint, err = endpoint.FromKubeconfig(p.kubeconfig, ""); err != nil {
		return err
	}
	p.clock, p.registry = clock.Start(), instrument.New("kubevirt")
	p.log = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: level}))
	return nil
}

// serve answers for the process while work runs.
func (p *vmProcess) serve(ctx context.Context, out io.Writer, work func() error, routes ...instrument.Route) (err error) {
	server, err := p.registry.Serve(ctx, p.listen, routes...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintf(out, "metrics on http://%s/metrics\n", server.Address)
	return work()
}

func vmControllerVerb(env *environment) *cobra.Command {
	p, o := &vmProcess{}, controller.Options{Launcher: launcher.Options{Image: "quay.io/kubevirt/virt-launcher:v1.6.0"}, Migrations: controller.DefaultMigrationLimits()}
	def := vm.Default()
	rate, events := def.Limiter, true
	verb := p.verb(env, "vm-controller", "Run the controller of the VM plane", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.endpoint.Config("windtunnel-vm-controller"), p.registry, p.clock, p.log
		o.Shard, o.Shards, o.NoEvents = p.index, p.shards, !events
		o.Limiter = limiter.New(rate)
		p.registry.Times()
		return p.serve(ctx, env.stdout, func() error {
			if err := api.Install(ctx, o.Config, o.StatusSubresource); err != nil {
				return err
			}
			return controller.Run(ctx, o)
		}, instrument.Route{Path: "/limiter", Handler: o.Limiter})
	})
	f := verb.Flags()
	f.Var(&rate, "limiter", "of all calls; GET and PUT /limiter, or a KubeVirt object, change it while it runs")
	f.IntVar(&o.Threads, "threads", def.Threads, "workers on instances")
	f.IntVar(&o.OtherThreads, "other-threads", def.OtherThreads, "workers on machines, on migrations and on nodes")
	f.BoolVar(&o.StatusSubresource, "status-subresource", false, "define one for instances")
	f.BoolVar(&o.DropNoopEvents, "drop-noop-events", false, "do not queue events that change nothing that is looked at")
	f.BoolVar(&events, "events", true, "write event objects")
	f.StringVar(&o.Launcher.Image, "launcher-image", o.Launcher.Image, "of launcher pods; nothing runs it")
	f.Float64Var(&o.Launcher.OverheadRatio, "overhead-ratio", def.OverheadRatio, "times the memory overhead of launcher pods")
	f.DurationVar(&o.Launcher.QEMUTimeout, "qemu-timeout", 240e9, "how long a launcher waits for its machine")
	f.BoolVar(&o.Launcher.AllowEmulated, "allow-emulation", false, "launcher pods ask for no KVM device")
	f.DurationVar(&o.NodeTimeout, "node-timeout", 300e9, "a node without heartbeat for so long is unresponsive")
	f.IntVar(&o.Migrations.PerCluster, "migrations-per-cluster", o.Migrations.PerCluster, "at the same time")
	f.IntVar(&o.Migrations.PerSource, "migrations-per-source", o.Migrations.PerSource, "at the same time from one node")
	return verb
}

func vmAgentVerb(env *environment) *cobra.Command {
	p, o := &vmProcess{}, agent.Options{}
	def := vm.Default().Agents
	o.Limiter, o.Model = def.Limiter, agent.DefaultModel()
	events := true
	verb := p.verb(env, "vm-agent", "Run the node agents of the VM plane", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.endpoint.Config("windtunnel-vm-agent"), p.registry, p.clock, p.log
		o.Shard, o.Shards, o.NoEvents = p.index, p.shards, !events
		if err := errors.Join(o.Model.Validate(), o.Faults.Validate()); err != nil {
			return err
		}
		p.registry.Times()
		return p.serve(ctx, env.stdout, func() error {
			if err := api.Served(ctx, o.Config); err != nil {
				return err
			}
			return agent.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.Var(&o.Limiter, "limiter", "of each node's client")
	f.IntVar(&o.Threads, "threads", def.Threads, "workers of each node")
	f.StringVar(&o.Nodes, "nodes", "", "label `selector` of the nodes that get an agent; default all")
	f.StringVar(&o.Scope, "scope", def.Scope, "what each agent watches: node, or cluster (also every instance that there is)")
	f.IntVar(&o.MaxDevices, "max-devices", def.MaxDevices, "machines that fit on a node")
	f.DurationVar(&o.Heartbeat, "heartbeat", 60e9, "between heartbeats of a node, up to 2.2 times as long by chance")
	f.StringVar(&o.Hypervisor, "hypervisor", def.Hypervisor, "model, or qemu: one empty QEMU process for each machine")
	f.BoolVar(&o.StatusSubresource, "status-subresource", false, "instances have one")
	f.BoolVar(&events, "events", true, "write event objects")
	f.DurationVar(&o.QEMUTimeout, "qemu-timeout", 240e9, "a machine that has not started by then is given up; 0: never")
	f.Uint64Var(&o.Seed, "seed", def.Seed, "of the model's times and of the faults")
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

func vmWebhookVerb(env *environment) *cobra.Command {
	p, o := &vmProcess{}, webhook.Options{}
	verb := p.verb(env, "vm-webhook", "Run the admission webhook of the VM plane", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.endpoint.Config("windtunnel-vm-webhook"), p.registry, p.clock, p.log
		return p.serve(ctx, env.stdout, func() error { return webhook.Run(ctx, o) })
	})
	verb.Flags().StringVar(&o.Listen, "admission-listen", "127.0.0.1:0", "`host:port` of admission, TLS")
	verb.Flags().BoolVar(&o.CreateOnly, "create-only", false, "later writes of instances do not pass through it")
	return verb
}
