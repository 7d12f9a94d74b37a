package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
)

// validateVerb checks files, and starts nothing.
func validateVerb(env *environment) *cobra.Command {
	var set, overrides, named []string
	verb := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check scenarios, and configs of ClusterLoader2 and kube-burner",
		Long: "validate reads files as run does, with the files that they name: bodies, replays, stages and\n" +
			"definitions. A FILE of - is read from standard input. Each error is printed as FILE:LINE:\n" +
			"TEXT. Exit code: 0 if there are none, else 3.",
		Example: "  windtunnel validate scenarios/*.yaml\n  windtunnel validate density.yaml --set nodes=500",
		Args:    cobra.MinimumNArgs(1),
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "set a parameter of the scenarios, as `NAME=VALUE`; repeatable")
	verb.Flags().StringArrayVar(&overrides, "overrides", nil, "`FILE` of variables of a ClusterLoader2 or kube-burner config; repeatable")
	verb.Flags().StringArrayVar(&named, "env", nil, "allow a ClusterLoader2 or kube-burner config to read the environment variable `NAME`, although it looks like a secret; repeatable")
	verb.RunE = func(_ *cobra.Command, args []string) error {
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		var faults []error
		for _, file := range args {
			said, err := flight.Check(flight.Options{File: file, Set: values, Overrides: overrides, Env: named})
			env.printNotice(said...)
			if err == nil {
				fmt.Fprintf(env.stdout, "%s: fine\n", file)
			}
			faults = append(faults, err)
		}
		return errors.Join(faults...)
	}
	return verb
}
