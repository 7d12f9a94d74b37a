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
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netconfig"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/site"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/lease"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// Verbs returns the processes of the plane. The defaults of their flags are Kosmos'.
func Verbs(host process.Host) []*cobra.Command {
	return append(treeVerbs(host), linkVerbs(host)...)
}

func treeVerbs(host process.Host) []*cobra.Command {
	t, m := tree.Default(), members.Default()
	return []*cobra.Command{
		host.Verb(process.Spec{
			Name: "tree-manager", Short: "Run the manager of the clusters plane", Options: t.Words(), Env: &t.Env,
			Preset: process.Preset{Usage: "set the flags that are not given to what is better than Kosmos'"},
			Run: func(ctx context.Context) error {
				if err := api.Install(ctx, t.Config); err != nil {
					return err
				}
				if t.Election == tree.ElectionNone {
					return tree.Run(ctx, t)
				}
				return lease.Lease{Name: "cluster-manager", Config: t.Config, Reads: true}.Hold(ctx, t.Env, func(ctx context.Context) error { return tree.Run(ctx, t) })
			},
		}),
		host.Verb(process.Spec{
			Name: "tree-members", Short: "Join members to a cluster tree, and watch that both sides agree", Options: m.Words(), Check: m.Validate, Env: &m.Env,
			Run: func(ctx context.Context) error { return members.Run(ctx, m) },
		}),
	}
}

func linkVerbs(host process.Host) []*cobra.Command {
	l, m, a := site.Default(), netconfig.Default(), netconfig.AgentDefault()
	return []*cobra.Command{
		host.Verb(process.Spec{
			Name: "link", Short: "Hold two clusters in network namespaces, joined by the network of the clusters plane", Options: l.Words(), Check: l.Validate, Env: &l.Env,
			Run: func(ctx context.Context) error { return site.Hold(ctx, l) },
		}),
		host.Verb(process.Spec{
			Name: "network-manager", Short: "Run the network-manager of the clusters plane", Options: m.Words(), Env: &m.Env,
			Run: func(ctx context.Context) error {
				if err := netconfig.Install(ctx, m.Config); err != nil {
					return err
				}
				return netconfig.Run(ctx, m)
			},
		}),
		host.Verb(process.Spec{
			Name: "network-agents", Short: "Run an agent for each node of the clusters plane, which changes nothing", Options: a.WordsOrNone(), Env: &a.Env,
			Run: func(ctx context.Context) error { return netconfig.RunAgents(ctx, a) },
		}),
	}
}
