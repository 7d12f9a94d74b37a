package main

import (
	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity/growth"
)

// capacityVerb fits how a plane's cost grows with its load.
func capacityVerb(env *environment) *cobra.Command {
	var o growth.Options
	var output string
	verb := &cobra.Command{
		Use:   "capacity RUN...",
		Short: "Fit how CPU, memory and latency grow with pods, nodes or another size",
		Long: "capacity needs at least five runs of one scenario on one machine, with at least three\n" +
			"sizes, and fits how each quantity grows: constant, linear or superlinear. Projections\n" +
			"beyond the measured sizes are no measurements. The runs of a search are suitable. capacity\n" +
			"skips paths that are no run directories, such as exports next to the runs.",
		Example: "  windtunnel capacity runs/density/search-podsPerNode/podsPerNode*\n" +
			"  windtunnel capacity --against pods --project 50000 runs/density/2026*",
		Args: cobra.MinimumNArgs(1),
	}
	verb.Flags().StringVar(&o.Against, "against", "", "`SIZE` to fit against: a parameter, nodes, pods, objects, apps, a resource such as deployments.apps, or a measure (default: the parameter that varies)")
	verb.Flags().Float64SliceVar(&o.Project, "project", nil, "`SIZES` to project to, separated by commas (default: twice the largest)")
	verb.Flags().Lookup("project").DefValue = "" // pflag would write it as []
	verb.Flags().StringSliceVar(&o.Only, "measure", nil, "fit only measures whose keys in verdict.json start with `PREFIX`; repeatable")
	addOutput(verb, &output, outputForms()...)
	verb.RunE = func(_ *cobra.Command, args []string) error {
		if err := wantOneOf("--output", output, outputForms()...); err != nil {
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
		return printAs(env, output, fits)
	}
	return verb
}
