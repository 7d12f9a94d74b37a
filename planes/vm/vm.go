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

	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/vm/internal/agent"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/controller"
	"github.com/windtunnel/windtunnel/planes/vm/internal/webhook"
)

// metricPrefix is that of KubeVirt's own metrics, whose names the plane keeps.
const metricPrefix = "kubevirt"

// Verbs returns the processes of the plane. The defaults of their flags are
// KubeVirt's after the published scale test: the controller's limit 200/400, the
// agents' 5/10.
func Verbs(host process.Host) []*cobra.Command {
	c, a, w := controller.Default(), agent.Default(), webhook.Default()
	return []*cobra.Command{
		host.Verb(process.Spec{
			Name: "vm-controller", Short: "Run the controller of the VM plane", Metrics: metricPrefix, Options: c.Words(), Env: &c.Env,
			Preset: process.Preset{Usage: "another release, or what is better than KubeVirt"},
			Run: func(ctx context.Context) error {
				if err := api.Install(ctx, c.Config, c.StatusSubresource); err != nil {
					return err
				}
				return controller.Run(ctx, c)
			},
		}),
		host.Verb(process.Spec{
			Name: "vm-agent", Short: "Run the node agents of the VM plane", Metrics: metricPrefix, Options: a.Words(), Check: a.Validate, Env: &a.Env,
			Run: func(ctx context.Context) error {
				if err := api.Served(ctx, a.Config); err != nil {
					return err
				}
				return agent.Run(ctx, a)
			},
		}),
		host.Verb(process.Spec{
			Name: "vm-webhook", Short: "Run the admission webhook of the VM plane", Metrics: metricPrefix, Options: w.Words(), Env: &w.Env,
			Preset: process.Preset{Usage: "another release, or what is better than KubeVirt"},
			Run:    func(ctx context.Context) error { return webhook.Run(ctx, w) },
		}),
	}
}
