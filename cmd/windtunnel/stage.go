package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/golden"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// stageVerb holds what concerns stages alone, without a plane.
func stageVerb(env *environment) *cobra.Command {
	var update bool
	verb := &cobra.Command{Use: "stage", Short: "Test stages without a control plane"}
	test := &cobra.Command{
		Use:   "test DIR...",
		Short: "Play stages on test objects and compare the effects with the expected ones",
		Long: "Each testdata/NAME.input.yaml below DIR contains an object. The stages are the YAML files in\n" +
			"the folder above testdata. NAME.output.yaml lists the stages that match and their effects,\n" +
			"in the format of kwok's test data. stage test prints the differences and exits with 1 if\n" +
			"there are any. --update writes the output files instead, also those that do not exist yet.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if update {
				_, err := golden.Update(env.stdout, args)
				return err
			}
			result, err := golden.Run(env.stdout, args)
			if err != nil {
				return err
			}
			fmt.Fprintf(env.stdout, "%d equal, %d differ\n", result.Passed, result.Failed)
			if result.Failed > 0 {
				return verdictError{slo.Fail}
			}
			return nil
		},
	}
	test.Flags().BoolVar(&update, "update", false, "write output files that differ or do not exist yet")
	verb.AddCommand(test)
	return verb
}
