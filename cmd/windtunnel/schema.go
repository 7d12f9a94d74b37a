package main

import (
	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/scenario"
)

// schemaVerb prints the JSON Schema of scenario files, for editors.
func schemaVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of scenario files, for editors",
		Example: "  windtunnel schema > scenario.schema.json\n" +
			"  # and in a scenario: # yaml-language-server: $schema=scenario.schema.json",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.data().Write(scenario.Schema())
			return err
		},
	}
}
