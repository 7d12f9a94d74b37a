// Package edge is the edge plane: hubs that do what KubeEdge's CloudCore does, and
// fleets of hollow edges that speak its protocol, on a real API server. What is
// modelled and what is real, docs/how-to/reproducing-kubeedge-100k.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/edge) and by people who want to look closer.
package edge

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/direct"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Verbs returns the processes of the plane.
func Verbs(host cli.Host) []*cobra.Command {
	return []*cobra.Command{hubVerb(host), fleetVerb(host), directVerb(host)}
}

// collected is how much garbage may come on top of what lives, in percent: with
// Go's 100 a connection at rest would cost twice.
const collected = 40

func hubVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), hub.Default()
	rate := limiter.Rate{QPS: 2500, Burst: 5000} // KubeEdge's: 5 and 10 times its node limit of 500
	verb := p.Verb("edge-hub", "Run a hub of the edge plane", "", func(ctx context.Context) error {
		debug.SetGCPercent(collected)
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-edge-hub"), p.Registry, p.Clock, p.Log
		if err := o.Validate(); err != nil {
			return err
		}
		o.Config.RateLimiter = limiter.New(rate)
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if err := api.Install(ctx, o.Config); err != nil {
				return err
			}
			if o.Devices {
				if err := api.InstallDevices(ctx, o.Config); err != nil {
					return err
				}
			}
			return hub.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.Var(&rate, "limiter", "client-side rate limit `QPS/BURST` shared by all requests of the hub")
	o.Words().AddFlags(f)
	cli.AddPreset(verb, o.Words(), words.ImprovedPreset, "what is better than KubeEdge's, but for flags that are given")
	return verb
}

// directVerb is what edges cost the API server where there is no edge plane.
func directVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), direct.Default()
	verb := p.Verb("edge-direct", "Run edges that watch the API server themselves", "", func(ctx context.Context) error {
		o.Config, o.Registry, o.Log = p.NewConfig("windtunnel-edge-direct"), p.Registry, p.Log
		o.Shard, o.Shards = p.Shard, p.Shards
		if err := o.Validate(); err != nil {
			return err
		}
		return direct.Run(ctx, o, func(routes []instrument.Route, work func() error) error {
			return p.Serve(ctx, work, routes...)
		})
	})
	f := verb.Flags()
	f.IntVar(&o.Edges, "edges", o.Edges, "`NUMBER` of edges of all shards")
	f.StringVar(&o.Prefix, "prefix", o.Prefix, "`PREFIX` of edge names")
	f.Float64Var(&o.JoinRate, "join-rate", o.JoinRate, "edges that connect per second")
	return verb
}

func fleetVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), fleet.Default()
	verb := p.Verb("edge-fleet", "Run hollow edges", "", func(ctx context.Context) error {
		debug.SetGCPercent(collected)
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-edge-fleet"), p.Registry, p.Clock, p.Log
		o.Shard, o.Shards = p.Shard, p.Shards
		if err := o.Validate(); err != nil {
			return err
		}
		return fleet.Run(ctx, o, func(routes []instrument.Route, work func() error) error {
			return p.Serve(ctx, work, routes...)
		})
	})
	f := verb.Flags()
	f.IntVar(&o.Edges, "edges", o.Edges, "`NUMBER` of edges of all shards")
	f.StringVar(&o.Prefix, "prefix", o.Prefix, "`PREFIX` of edge names")
	f.Float64Var(&o.JoinRate, "join-rate", o.JoinRate, "edges that first connect per second")
	f.IntVar(&o.Dialers, "dialers", o.Dialers, "`NUMBER` of connections opened in parallel")
	f.IntVar(&o.Hubs, "hubs", o.Hubs, "`NUMBER` of hubs to wait for before edges connect")
	f.IntVar(&o.Sources, "sources", o.Sources, "source addresses 127.0.0.2 and on; 0: as the kernel chooses")
	f.StringVar(&o.Certificates, "certificates", o.Certificates, "own: each edge enrols; shared: one for all")
	f.StringVar(&o.Transport, "transport", o.Transport, "transport of connections: websocket, quic")
	f.StringVar(&o.Backoff, "backoff", o.Backoff, "before an edge dials again: fixed30, jitter")
	f.BoolVar(&o.Crypto, "crypto-tls", o.Crypto, "let crypto/tls stay on connections, as it does everywhere else")
	f.StringVar(&o.TLS, "tls", o.TLS, "handshakes of who connects again: full, resume")
	f.DurationVar(&o.ReadEvery, "read-every", o.ReadEvery, "an edge reads what has come no more often, over websockets")
	f.Float64Var(&o.Duplicate, "duplicate", o.Duplicate, "share of messages that are sent twice")
	f.DurationVar(&o.Keepalive, "keepalive", o.Keepalive, "`DURATION` between keepalives")
	f.DurationVar(&o.Grid, "grid", o.Grid, "keepalives, leases and statuses of a fleet come together on multiples of it; 0: each edge's for itself")
	f.DurationVar(&o.Lease, "lease", o.Lease, "`DURATION` between renewals of leases; 0: edges have no lease")
	f.DurationVar(&o.Status, "status", o.Status, "`DURATION` between status reports of an unchanged node; 0: none")
	f.StringVar(&o.Heartbeat, "heartbeat", o.Heartbeat, "by which an edge says that it is well: lease, nodestatus")
	f.DurationVar(&o.PodStart, "pod-start", o.PodStart, "model: median time to start a pod whose objects are there")
	f.DurationVar(&o.PodStop, "pod-stop", o.PodStop, "model: median time to end a pod")
	f.DurationVar(&o.CompareAfter, "compare-after", o.CompareAfter, "a pod that runs has come back as pending, and is said to run once more; 0: never")
	f.Float64Var(&o.DropAcks, "drop-acks", o.DropAcks, "share of acknowledgements that get lost")
	f.DurationVar(&o.DelayAcks, "delay-acks", o.DelayAcks, "before each acknowledgement")
	f.BoolVar(&o.Nodes, "nodes", o.Nodes, "edges join as nodes; false: they connect and send keepalives alone")
	f.BoolVar(&o.CompareNodes, "compare-nodes", o.CompareNodes, "an edge is to have its node as the API server has it")
	f.IntVar(&o.Pods, "pods", o.Pods, "maximum `NUMBER` of pods on an edge")
	f.BoolVar(&o.Devices, "devices", o.Devices, "edges are to have their devices as the API server has them")
	f.IntVar(&o.Reports, "reports", o.Reports, "`NUMBER` of reports of each device")
	f.DurationVar(&o.ReportEvery, "report-every", o.ReportEvery, "`DURATION` between two reports of a device")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "`SEED` of the simulated durations")
	return verb
}
