package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/examples"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
)

// demoExample is the scenario that demo runs.
const demoExample = "density"

// demoVerb runs the density test without any file.
func demoVerb(env *environment) *cobra.Command {
	var set []string
	var out string
	var others neighbours
	var left leftover
	verb := &cobra.Command{
		Use:   "demo",
		Short: "Run the density test, which needs no file",
		Long: "demo runs the example density: it boots a control plane, fills 100 simulated nodes with\n" +
			"3,000 pods, starts 100 single pods, deletes everything, and judges the run by the official\n" +
			"Kubernetes SLOs. It takes about two minutes. Exit code: 0 pass, 1 fail, 2 unknown, 3 bad\n" +
			"input or a fault of the tool.",
		Example: "  windtunnel demo\n  windtunnel demo --set nodes=20 --set podsPerNode=5",
		Args:    cobra.NoArgs,
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "set a parameter of the scenario, or a field such as plane.durability, as `NAME=VALUE`; repeatable")
	verb.Flags().StringVar(&out, "out", "", "run directory `DIR` (default runs/density/UTC-TIME, with a link latest)")
	others.addFlag(verb)
	left.addFlags(verb)
	verb.RunE = func(cmd *cobra.Command, _ []string) error {
		values, err := parseSet(set)
		if err := errors.Join(err, left.checkFlags()); err != nil {
			return err
		}
		if _, err := versionsWithPlane(); errors.Is(err, release.ErrAbsent) {
			return errors.New("no control plane to start: run `" + buildCommand + "`, then windtunnel demo")
		}
		raw, err := examples.Read(demoExample)
		if err != nil {
			return err
		}
		ctx, cancel := env.flightContext(cmd.Context())
		defer cancel()
		shown := newProgress(env)
		options := env.flightOptions(shown)
		options.File, options.Text, options.Set, options.Out, options.MaxNeighbours = demoExample+".yaml", raw, values, out, float64(others)
		result, err := flight.Run(ctx, options)
		shown.clearLine()
		if err != nil {
			return err
		}
		err = left.printResult(env, result)
		if result.Err == nil {
			fmt.Fprintf(env.stderr, "next: windtunnel examples %s writes the scenario, to change and to run\n", demoExample)
		}
		return err
	}
	return verb
}
