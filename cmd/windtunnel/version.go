package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/plane/component"
)

// version is windtunnel's own.
const version = "0.1.0-dev"

// binaryVersions returns what this binary is made of.
func binaryVersions() map[string]string {
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

// addVersion lets --version behind any verb print the version. Only the root's help
// shows it. A flag of that name which a library of Kubernetes adds to every command
// line is left out by it.
func addVersion(root *cobra.Command) {
	const name, usage = "version", "print the version"
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().Bool(name, false, usage)
	_ = root.PersistentFlags().MarkHidden(name) // which is there
	root.Flags().Bool(name, false, usage)
	text := "windtunnel " + version
	if linked := component.Versions(); linked != nil {
		text += ", Kubernetes " + linked["kubernetes"] + ", etcd " + linked["etcd"]
	}
	var each func(*cobra.Command)
	each = func(verb *cobra.Command) {
		verb.Version = text
		for _, one := range verb.Commands() {
			each(one)
		}
	}
	each(root)
}

// versionVerb prints the versions, one a line.
func versionVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of windtunnel and of the control plane in it",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all := binaryVersions()
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
