package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
)

// importVerb writes another tool's file as a scenario.
func importVerb(env *environment) *cobra.Command {
	var set, overrides, named []string
	var out string
	verb := &cobra.Command{
		Use:   "import FILE",
		Short: "Write a ClusterLoader2 or kube-burner config as a scenario",
		Long: "import reads a config or suite of ClusterLoader2, or a config of kube-burner, and writes the\n" +
			"scenario that `windtunnel run FILE` would run. It lists each field that it cannot honor.",
		Example: "  windtunnel import config.yaml --set Nodes=100 -o scenario.yaml",
		Args:    cobra.ExactArgs(1),
	}
	verb.Flags().StringArrayVar(&set, "set", nil, "set a variable of the config, as `NAME=VALUE`; Nodes is the size of the fleet; repeatable")
	verb.Flags().StringArrayVar(&overrides, "overrides", nil, "`FILE` of variables; repeatable, later files win")
	verb.Flags().StringArrayVar(&named, "env", nil, "allow a ClusterLoader2 or kube-burner config to read the environment variable `NAME`, although it looks like a secret; repeatable")
	verb.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write (default: standard output)")
	verb.RunE = func(_ *cobra.Command, args []string) error {
		values, err := parseSet(set)
		if err != nil {
			return err
		}
		in, err := flight.Load(flight.Options{File: args[0], Set: values, Overrides: overrides, Env: named})
		if err != nil {
			return err
		}
		env.printNotice(in.Said()...)
		env.printNotice(in.Scenario.Warnings...)
		if out == "" {
			_, err = env.data().Write(in.Native)
			return err
		}
		if err := writeFile(out, in.Native, 0o600); err != nil {
			return fmt.Errorf("write scenario: %w", err)
		}
		return nil
	}
	return verb
}
