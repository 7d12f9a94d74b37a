package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/plane/component"
)

// version is windtunnel's own.
const version = "0.1.0-dev"

// versions returns what this binary is made of.
func versions() map[string]string {
	out := component.Versions()
	if out == nil {
		out = map[string]string{}
	}
	out["windtunnel"] = version
	out["go"] = runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out["commit"] = s.Value
			}
		}
	}
	return out
}

// versionVerb prints the versions, one a line.
func versionVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of windtunnel and of the control plane in it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all := versions()
			names := make([]string, 0, len(all))
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				fmt.Fprintf(env.stdout, "%-12s %s\n", name, all[name])
			}
			return nil
		},
	}
}
