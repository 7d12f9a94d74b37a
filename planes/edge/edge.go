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
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// collected is how much garbage may come on top of what lives, in percent: with
// Go's 100 a connection at rest would cost twice.
const collected = 40

// Verbs returns the processes of the plane.
func Verbs(host process.Host) []*cobra.Command {
	h, f, d := hub.Default(), fleet.Default(), direct.Default()
	return []*cobra.Command{
		host.Verb(process.Spec{
			Name: "edge-hub", Short: "Run a hub of the edge plane", Options: h.Words(), Env: &h.Env,
			Preset: process.Preset{Usage: "set the flags that are not given to what is better than KubeEdge's, or to those of another release"},
			Run: func(ctx context.Context) error {
				debug.SetGCPercent(collected)
				if err := api.Install(ctx, h.Config); err != nil {
					return err
				}
				if h.Devices {
					if err := api.InstallDevices(ctx, h.Config); err != nil {
						return err
					}
				}
				return hub.Run(ctx, h)
			},
		}),
		host.Verb(process.Spec{
			Name: "edge-fleet", Short: "Run hollow edges", Options: f.Words(), Check: f.Validate, Env: &f.Env,
			Preset: process.Preset{Usage: "set the flags that are not given to those of another release"},
			Run: func(ctx context.Context) error {
				debug.SetGCPercent(collected)
				return fleet.Run(ctx, f)
			},
		}),
		// What edges cost the API server where there is no edge plane.
		host.Verb(process.Spec{
			Name: "edge-direct", Short: "Run edges that watch the API server themselves", Options: d.Words(), Env: &d.Env,
			Run: func(ctx context.Context) error { return direct.Run(ctx, d) },
		}),
	}
}
