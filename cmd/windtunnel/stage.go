package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fleet/stage/golden"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// stageVerb holds what concerns stages alone, without a plane.
func stageVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{Use: "stage", Short: "Try stages without a plane"}
	verb.AddCommand(&cobra.Command{
		Use:   "test DIR...",
		Short: "Play stages on the objects beside them and compare with what is written down",
		Long: "Each testdata/NAME.input.yaml below DIR holds an object. The stages are the YAML files in the\n" +
			"folder above testdata; NAME.output.yaml says which of them may play and with what effects, in the\n" +
			"format of kwok's test data. What differs is printed: exit code 1.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
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
	})
	return verb
}
