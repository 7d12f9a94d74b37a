// Package clusters is the clusters plane, a reference plane under test: Kosmos' cluster
// tree on a real API server and on members, real or hollow. What is modelled and what
// is real, docs/how-to/reproducing-kosmos.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/clusters) and by people who want to look closer.
package clusters

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/members"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Verbs returns the processes of the plane. The defaults of their flags are Kosmos'.
func Verbs(host cli.Host) []*cobra.Command {
	return []*cobra.Command{managerVerb(host), membersVerb(host), linkVerb(host), networkManagerVerb(host), networkAgentsVerb(host)}
}

func managerVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), tree.Default()
	verb := p.Verb("tree-manager", "Run the manager of the clusters plane", "", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-tree-manager"), p.Registry, p.Clock, p.Log
		if err := o.Validate(); err != nil {
			return err
		}
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if err := api.Install(ctx, o.Config); err != nil {
				return err
			}
			return tree.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.Var(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST` of each client, for the host and for each member")
	o.Words().AddFlags(f)
	cli.AddPreset(verb, o.Words(), words.ImprovedPreset, "what is better than Kosmos', but for flags that are given")
	return verb
}

func membersVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), members.Options{LeafMode: api.LeafAll}
	verb := p.Verb("tree-members", "Join members to a cluster tree, and watch that both sides agree", "", func(ctx context.Context) error {
		o.Config, o.Registry, o.Log = p.NewConfig("windtunnel-tree-members"), p.Registry, p.Log
		if err := o.Validate(); err != nil {
			return err
		}
		return members.Run(ctx, o, func(work func() error, routes ...instrument.Route) error { return p.Serve(ctx, work, routes...) })
	})
	f := verb.Flags()
	f.StringVar(&o.Folder, "members", "", "`folder` with NAME.kubeconfig of each")
	f.StringVar(&o.LeafMode, "leaf-mode", o.LeafMode, "what a member is on the host: all (one node), party (one for each value of a label), node (one for each of its nodes)")
	f.StringVar(&o.Label, "leaf-label", "", "`LABEL` of member nodes that selects their party, with --leaf-mode=party")
	f.BoolVar(&o.Services, "services", false, "members get the definitions by which they import services, and these are compared")
	f.IntVar(&o.Nodes, "nodes", 0, "`NUMBER` of nodes that a member must have before it joins")
	return verb
}
