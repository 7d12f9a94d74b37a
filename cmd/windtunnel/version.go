package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
)

// version is that of a build from a checkout.
const version = "0.1.0-dev"

// A release sets both (-ldflags -X): its version and the commit it was built from.
var stamp, commit string

// ownVersion returns windtunnel's version: of a release, of the module that go install took,
// or of the checkout.
func ownVersion() string {
	if stamp != "" {
		return stamp
	}
	if info, ok := debug.ReadBuildInfo(); ok && isRelease(info.Main.Version) {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return version
}

// buildName names what computes the results of a bundle: a release, or the very executable
// that was built of a checkout, where one version has many builds.
func buildName() string {
	if v := ownVersion(); v != version {
		return v
	}
	if sum := build.OwnSHA256(); sum != "" {
		return version + "+" + sum[:12]
	}
	return version
}

// isRelease tells whether a module's version is a release: neither empty, "(devel)", nor one
// that Go made of a commit.
func isRelease(v string) bool {
	return strings.HasPrefix(v, "v") && !strings.Contains(v, "-0.") && !strings.HasPrefix(v, "v0.0.0-") && !strings.Contains(v, "+")
}

// binaryVersions returns what this executable is made of.
func binaryVersions() map[string]string {
	out := map[string]string{"windtunnel": ownVersion(), "go": runtime.Version()}
	if commit != "" {
		out["commit"] = commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				out["commit"] = s.Value
			}
		}
	}
	return out
}

// versionsWithPlane returns also the versions of the control plane that is started where
// a scenario does not name another. Where there is none, it returns why.
func versionsWithPlane() (map[string]string, error) {
	out := binaryVersions()
	tool, err := os.Executable()
	if err != nil {
		return out, fmt.Errorf("find own executable: %w", err)
	}
	p, err := release.Find(release.Wanted{}, tool)
	if err == nil {
		maps.Copy(out, p.Versions())
	}
	return out, err
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
	text := "windtunnel " + ownVersion()
	if all, err := versionsWithPlane(); err == nil {
		text += ", Kubernetes " + all["kubernetes"] + ", etcd " + all["etcd"]
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
		Short: "Print the versions of windtunnel and of its control plane",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := versionsWithPlane()
			for _, name := range slices.Sorted(maps.Keys(all)) {
				fmt.Fprintf(env.stdout, "%-12s %s\n", name, all[name])
			}
			if err != nil {
				fmt.Fprintf(env.stderr, "%v\n", err)
			}
			return nil
		},
	}
}
