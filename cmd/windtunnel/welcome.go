package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
)

// buildCommand brings the control plane that is started where a scenario names no other.
const buildCommand = "windtunnel plane build " + release.Default

// welcome is what windtunnel says without a verb: the next three commands, of which the
// first brings a control plane where there is none.
func welcome(plane bool) string {
	const (
		what = "windtunnel boots a control plane, simulates a fleet around it, sends an exactly timed\n" +
			"load, measures, and gives a verdict: 0 pass, 1 fail, 2 unknown, 3 bad input or a fault.\n\n" +
			"Next:\n"
		check = "  windtunnel doctor                  check this machine and what it can hold\n"
		build = "  " + buildCommand + "     compile a control plane; needs Go, takes minutes\n"
		rest  = "  windtunnel demo                    run the density test, about two minutes\n" +
			"  windtunnel init density            write a scenario of your own, with comments\n\n" +
			"windtunnel --help lists all commands; windtunnel examples lists scenarios to run.\n"
	)
	if plane {
		return what + check + rest
	}
	return what + build + rest
}

// addWelcome lets windtunnel without a verb say what to do next.
func addWelcome(env *environment, root *cobra.Command) {
	root.RunE = func(*cobra.Command, []string) error {
		_, noPlane := versionsWithPlane()
		_, err := fmt.Fprint(env.stdout, welcome(noPlane == nil))
		return err
	}
}
