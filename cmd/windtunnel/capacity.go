package main

import (
	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/capacity/growth"
)

// capacityVerb fits how a plane's cost grows with its load.
func capacityVerb(env *environment) *cobra.Command {
	var o growth.Options
	var output string
	verb := &cobra.Command{
		Use:   "capacity RUN...",
		Short: "Say how CPU, memory and latency grow with pods, nodes or another size",
		Long: "capacity takes runs of one scenario that were flown with growing sizes, at least five of\n" +
			"three sizes, on one machine, and fits how each quantity grows: constant, linear,\n" +
			"superlinear. What it projects beyond the sizes that were flown is no measurement. The\n" +
			"runs of a search will do.",
		Example: "  windtunnel capacity runs/density/search-podsPerNode/podsPerNode*\n" +
			"  windtunnel capacity --against pods --project 50000 runs/density/2026*",
		Args: cobra.MinimumNArgs(1),
	}
	verb.Flags().StringVar(&o.Against, "against", "", "the `SIZE`: a parameter, nodes, pods, objects, apps, a resource such as deployments.apps, or a measure; default: the parameter that varies")
	verb.Flags().Float64SliceVar(&o.Project, "project", nil, "`sizes` to project to; default: twice the largest")
	verb.Flags().StringSliceVar(&o.Only, "measure", nil, "fit only measures whose keys in verdict.json begin with `PREFIX`; repeatable")
	addOutput(verb, &output, forms()...)
	verb.RunE = func(_ *cobra.Command, args []string) error {
		if err := wantOneOf("--output", output, forms()...); err != nil {
			return err
		}
		runs, err := env.openRuns(args)
		if err != nil {
			return err
		}
		fits, err := growth.Fit(runs, o)
		if err != nil {
			return err
		}
		if output == "json" {
			return fits.JSON(env.stdout)
		}
		return fits.Write(env.stdout, output == "markdown")
	}
	return verb
}
