// Package app is the app plane, a reference plane under test: KubeVela's delivery
// of applications as far as its published scalability assessment turns on it, with
// a real controller on a real API server. What is modelled and what is real,
// docs/how-to/reproducing-kubevela-assessment.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/app) and by people who want to look closer.
package app

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/app/internal/gateway"
	"github.com/windtunnel/windtunnel/planes/app/internal/webhook"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// Verbs returns the processes of the plane. The defaults of their flags are those
// of KubeVela v1.8.0 with the settings of its chart.
func Verbs(host process.Host) []*cobra.Command {
	c, w, g, m := controller.Default(), webhook.Default(), gateway.Default(), cluster.Default()
	return []*cobra.Command{
		host.Verb(process.Spec{
			Name: "app-controller", Short: "Run the controller of the app plane", Options: c.Words(), Check: c.Validate, Env: &c.Env,
			Preset: process.Preset{Flag: "profile", Default: controller.ProfileV18, Usage: "defaults of the flags and gates that are not given; v1.7.5 is v175, v1.8.0 is v18",
				Same: map[string]string{"v1.7.5": controller.ProfileV175, "v1.8.0": controller.ProfileV18}},
			Run: func(ctx context.Context) error {
				if c.Install {
					all, err := definitions.All()
					if err != nil {
						return err
					}
					if err := api.Install(ctx, c.Config, all); err != nil {
						return err
					}
				}
				return controller.Run(ctx, c)
			},
		}),
		host.Verb(process.Spec{
			Name: "app-webhook", Short: "Run the admission webhook of the app plane", Options: w.Words(), Env: &w.Env,
			Run: func(ctx context.Context) error {
				if err := api.Install(ctx, w.Config, nil); err != nil { // a rule for what is not served is none
					return err
				}
				return webhook.Run(ctx, w)
			},
		}),
		host.Verb(process.Spec{
			Name: "app-gateway", Short: "Run the gateway of the app plane to member clusters", Options: g.Words(), Env: &g.Env,
			Run: func(ctx context.Context) error { return gateway.Run(ctx, g) },
		}),
		host.Verb(process.Spec{
			Name: "app-member", Short: "Join member clusters to the app plane", Options: m.Words(), Env: &m.Env,
			Run: func(ctx context.Context) error {
				if err := api.Install(ctx, m.Config, nil); err != nil { // the namespace of their Secrets
					return err
				}
				return cluster.Run(ctx, m)
			},
		}),
	}
}
