package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/flight"
)

// validateVerb checks files, and starts nothing.
func validateVerb(env *environment) *cobra.Command {
	var set, overrides, named []string
	verb := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check scenarios, and configs of ClusterLoader2 and kube-burner",
		Long: "validate reads files as run does, with all that they name: bodies, replays, stages,\n" +
			"definitions. Every fault is a line FILE:LINE: TEXT, and the exit code 3; without one it is 0.",
		Example: "  windtunnel validate scenarios/*.yaml\n  windtunnel validate density.yaml --set nodes=500",
		Args:    cobra.MinimumNArgs(1),
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "a parameter of the scenarios, `name=value`; repeatable")
	verb.Flags().StringArrayVar(&overrides, "overrides", nil, "a `file` of variables of a ClusterLoader2 or kube-burner config; repeatable")
	verb.Flags().StringArrayVar(&named, "env", nil, "let a ClusterLoader2 or kube-burner config read the variable `NAME` of the environment, though it looks like a secret; repeatable")
	verb.RunE = func(_ *cobra.Command, args []string) error {
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		var faults []error
		for _, file := range args {
			said, err := flight.Check(flight.Options{File: file, Set: values, Overrides: overrides, Env: named})
			env.notice(said...)
			if err == nil {
				fmt.Fprintf(env.stdout, "%s: fine\n", file)
			}
			faults = append(faults, err)
		}
		return errors.Join(faults...)
	}
	return verb
}
