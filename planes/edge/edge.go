// Package edge is the edge plane: hubs that do what KubeEdge's CloudCore does, and
// fleets of hollow edges that speak its protocol, on a real API server. What is
// modelled and what is real, docs/reproducing-kubeedge-100k.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/edge) and by people who want to look closer.
package edge

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/subject/kit/cli"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/internal/subject/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/direct"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
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
	cli.Preset{Name: "improved", Values: hub.Improved()}.AddTo(verb, "what is better than KubeEdge's, but for flags that are given")
	f := verb.Flags()
	f.Var(&rate, "limiter", "client-side rate limit `QPS/BURST` shared by all requests of the hub")
	f.StringVar(&o.Name, "name", o.Name, "`NAME` of this hub, if there are several")
	f.StringVar(&o.Address, "address", o.Address, "`IP` where edges reach it")
	f.IntVar(&o.WebsocketPort, "websocket-port", 0, "KubeEdge's is 10000; 0: a free one")
	f.IntVar(&o.EnrolmentPort, "enrolment-port", 0, "KubeEdge's is 10002; 0: a free one")
	f.StringVar(&o.Owner, "owner", o.Owner, "whose edges' events it handles: all, own")
	f.StringVar(&o.Resync, "resync", o.Resync, "how an edge that is back gets what it missed: incremental, connect, full")
	f.StringVar(&o.Store, "store", o.Store, "where acknowledgements are written down: crd, local, none")
	f.StringVar(&o.NodeFilter, "node-filter", o.NodeFilter, "which changes of nodes go down: all, spec, off")
	f.StringVar(&o.PodFilter, "pod-filter", o.PodFilter, "which changes of pods go down: meta, spec")
	f.StringVar(&o.Birth, "birth", o.Birth, "when a new ObjectSync is made: dispatch, ack")
	f.StringVar(&o.LimitAnswer, "limit-answer", o.LimitAnswer, "answer to an edge beyond --node-limit: silent, close")
	f.StringVar(&o.Annotate, "annotate", o.Annotate, "how the hub's address comes to the node of who connects: read, watch")
	f.StringVar(&o.Join, "join", o.Join, "how a node is made: patch, whole")
	f.BoolVar(&o.SuccessGet, "success-get", o.SuccessGet, "read an ObjectSync before its status is written")
	f.StringVar(&o.Queues, "queues", o.Queues, "by what objects wait for an edge, and until when: head, v1.11")
	f.IntVar(&o.Window, "window", o.Window, "maximum `NUMBER` of unacknowledged messages to an edge")
	f.IntVar(&o.Dispatchers, "dispatchers", o.Dispatchers, "`NUMBER` of dispatchers of events to edges")
	f.IntVar(&o.Workers, "workers", o.Workers, "`NUMBER` of workers for each kind of request of edges")
	f.StringVar(&o.Requests, "requests", o.Requests, "who does what edges ask: any, of the workers; ordered: one for each object")
	f.IntVar(&o.Buffer, "buffer", o.Buffer, "maximum `NUMBER` of queued requests or events of each kind")
	f.IntVar(&o.NodeLimit, "node-limit", o.NodeLimit, "maximum `NUMBER` of edges")
	f.DurationVar(&o.Keepalive, "keepalive", o.Keepalive, "end a session after this `DURATION` without a keepalive")
	f.DurationVar(&o.Round, "round", o.Round, "`DURATION` between comparisons of ObjectSyncs with the objects")
	f.DurationVar(&o.ResendAfter, "resend-after", o.ResendAfter, "resend a message after this `DURATION` without an acknowledgement")
	f.IntVar(&o.Resends, "resends", o.Resends, "`NUMBER` of resends before a message backs off")
	f.DurationVar(&o.WriteTimeout, "write-timeout", o.WriteTimeout, "write timeout for an edge that does not read; 0: none")
	f.DurationVar(&o.HandshakeTimeout, "handshake-timeout", o.HandshakeTimeout, "handshake timeout of a new connection; KubeEdge has none")
	f.Float64Var(&o.Admit, "admit", o.Admit, "maximum handshakes per second; 0: no limit")
	f.BoolVar(&o.QUIC, "quic", o.QUIC, "also accept edges over QUIC, on a port of its own")
	f.BoolVar(&o.Devices, "devices", o.Devices, "edges have devices, whose definitions are installed")
	f.IntVar(&o.DeviceWorkers, "device-workers", o.DeviceWorkers, "`NUMBER` of workers for device reports")
	f.StringVar(&o.DeviceLookup, "device-lookup", o.DeviceLookup, "how it is known whether a model is still used: walk, index")
	f.DurationVar(&o.ModelWait, "model-wait", o.ModelWait, "for the model of a new device, during which other devices wait; 0: what comes later is sent then")
	f.BoolVar(&o.Authorize, "authorize", o.Authorize, "the name in an edge's certificate must be its node's")
	f.BoolVar(&o.Crypto, "crypto-tls", o.Crypto, "let crypto/tls stay on connections, as it does everywhere else")
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
