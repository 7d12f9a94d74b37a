package clusters

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netconfig"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netns"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/site"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
)

// namedNamespaces is the folder of names that ip netns knows.
const namedNamespaces = "/run/netns"

// linkVerb holds the namespaces of two clusters that are joined by a link.
func linkVerb(host cli.Host) *cobra.Command {
	p, o, prefix := cli.New(host), netns.Options{NetworkType: link.P2P, CNI: netns.CNIRouted, Encrypt: netns.EncryptNone, Family: link.Family4}, "windtunnel"
	s := site.Options{Agent: netconfig.AgentDefault(), Elector: netconfig.ElectorDefault()}
	rules := true
	verb := p.Verb("link", "Hold two clusters in network namespaces, joined by the network of the clusters plane", "", func(ctx context.Context) (err error) {
		if err := errors.Join(s.Agent.Validate(), s.Elector.Validate()); err != nil {
			return err
		}
		o.NoRules = !rules
		all, err := netns.Build(o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, all.Close()) }()
		withdraw, err := all.Publish(namedNamespaces, prefix)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, withdraw()) }()
		p.Registry.MustRegister(all.Collector())
		s.Topology, s.Registry, s.Log = all, p.Registry, p.Log
		return p.Serve(ctx, func() error {
			if !o.Unlinked {
				p.Registry.Ready()
				<-ctx.Done()
				return nil
			}
			s.Config = p.NewConfig("windtunnel-link")
			if err := netconfig.Install(ctx, s.Config); err != nil {
				return err
			}
			return site.Run(ctx, s)
		})
	})
	f := verb.Flags()
	f.StringVar(&o.NetworkType, "network-type", o.NetworkType, "network type of both clusters: p2p (node to node) or gateway")
	f.StringVar(&o.CNI, "cni", o.CNI, "how pods of one cluster reach each other: routed or vxlan")
	f.StringVar(&o.Family, "ip-family", o.Family, "IP family of the linked addresses: ipv4, ipv6 or all")
	f.BoolVar(&o.Overlap, "overlap", false, "both clusters have the same range of pods, and know each other's by another one (GlobalMap)")
	f.StringVar(&o.Encrypt, "encrypt", o.Encrypt, "packets between gateways: none or wireguard (in user space)")
	f.BoolVar(&rules, "rules", rules, "gateways masquerade, by nftables: hosts reach other clusters' pods by it")
	f.Uint64Var(&o.Bandwidth, "bandwidth", 0, "maximum send bandwidth of a machine, bits/s; 0: no limit")
	f.StringVar(&prefix, "prefix", prefix, "`PREFIX` of the names of namespaces in "+namedNamespaces)
	f.BoolVar(&o.Unlinked, "agents", false, "agents bring to machines what a network-manager computes, and gateways are elected; default: it stands from the begin")
	agentFlags(f, &s.Agent)
	f.DurationVar(&s.Elector.Duration, "lease-duration", s.Elector.Duration, "`DURATION` of the lease of an election")
	f.DurationVar(&s.Elector.Renew, "renew-deadline", s.Elector.Renew, "`DURATION` after which a gateway that cannot renew its lease gives up")
	f.DurationVar(&s.Elector.Retry, "retry-period", s.Elector.Retry, "`DURATION` between attempts to acquire or renew a lease")
	f.DurationVar(&s.Elector.Check, "role-check", s.Elector.Check, "`DURATION` between a gateway's checks that it alone has the role")
	return verb
}

func agentFlags(f *pflag.FlagSet, o *netconfig.AgentOptions) {
	f.StringVar(&o.Watch, "watch", o.Watch, "configurations that an agent watches: all or own")
	f.DurationVar(&o.Debounce, "debounce", o.Debounce, "`DURATION` for which a configuration change waits for others")
	f.DurationVar(&o.Drift, "drift", o.Drift, "`DURATION` between checks for drift of a node")
	f.Var(&o.Limiter, "agent-limiter", "client-side rate limit `QPS/BURST` of each agent")
}

// networkAgentsVerb runs the agents of all nodes without the nodes.
func networkAgentsVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), netconfig.AgentDefault()
	verb := p.Verb("network-agents", "Run an agent for each node of the clusters plane, which changes nothing", "", func(ctx context.Context) error {
		none := o.Watch == "none"
		if err := o.Validate(); err != nil && !none {
			return err
		}
		o.Config, o.Log = p.NewConfig("windtunnel-network-agents"), p.Log
		return p.Serve(ctx, func() error {
			if none {
				p.Registry.Ready()
				<-ctx.Done()
				return nil
			}
			if err := netconfig.Install(ctx, o.Config); err != nil {
				return err
			}
			return netconfig.RunAgents(ctx, o, p.Registry)
		})
	})
	agentFlags(verb.Flags(), &o)
	verb.Flags().Lookup("watch").Usage += ", or none: no agent runs"
	return verb
}

// networkManagerVerb keeps what each node of all clusters is to be given.
func networkManagerVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), netconfig.Default()
	verb := p.Verb("network-manager", "Run the network-manager of the clusters plane", "", func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		o.Config, o.Registry, o.Log = p.NewConfig("windtunnel-network-manager"), p.Registry, p.Log
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if err := netconfig.Install(ctx, o.Config); err != nil {
				return err
			}
			return netconfig.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.Var(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST`")
	f.StringVar(&o.Compute, "compute", o.Compute, "full: at each event every node's configuration; incremental: what changes touch")
	f.BoolVar(&o.Previous, "prev-annotation", o.Previous, "keep the configuration before beside each")
	f.DurationVar(&o.Window, "window", o.Window, "`DURATION` in which changes are collected and computed together, with --compute=incremental")
	return verb
}
