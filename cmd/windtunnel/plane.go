package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// planeVerb builds, imports and lists control planes.
func planeVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{
		Use:   "plane",
		Short: "Build, import and list control planes of any Kubernetes release",
		Long: "A plane is etcd, kube-apiserver, kube-scheduler and kube-controller-manager of one release\n" +
			"as executables. `plane build` compiles one from modules and keeps it in windtunnel/planes\n" +
			"of XDG_CACHE_HOME or ~/.cache. A scenario names it: plane: {release: v1.36.3}.",
	}
	verb.AddCommand(planeBuildVerb(env), planeListVerb(env), planeCheckVerb(env), planeImportVerb(env))
	return verb
}

func planeBuildVerb(env *environment) *cobra.Command {
	var etcd string
	var again bool
	verb := &cobra.Command{
		Use:   "build RELEASE",
		Short: "Build the control plane of a Kubernetes release from its modules",
		Long: "build asks the module proxy that GOPROXY names for the modules of the release, names those\n" +
			"that it lacks, and compiles the rest with the tags and flags of official builds. It needs\n" +
			"Go. Compiling takes minutes where little was compiled before.",
		Example: "  windtunnel plane build v1.36.3\n  windtunnel plane build v1.36.3 --etcd v3.6.12",
		Args:    cobra.ExactArgs(1),
	}
	verb.Flags().StringVar(&etcd, "etcd", "", "`RELEASE` of etcd (default: the one that kubeadm installs with that Kubernetes, or the next patch)")
	verb.Flags().BoolVar(&again, "again", false, "build it also if the cache has it, and replace that")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		cache, err := release.UserCache()
		if err != nil {
			return err
		}
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
		defer cancel()
		p, err := release.Builder{Cache: cache, Progress: env.stderr}.Build(ctx, release.Wanted{Kubernetes: args[0], Etcd: etcd}, again)
		if err != nil {
			return err
		}
		return printPlane(env, p)
	}
	return verb
}

// printPlane says what plane there is, and how a scenario names it.
func printPlane(env *environment, p release.Plane) error {
	_, err := fmt.Fprintf(env.stdout, "Kubernetes %s with etcd %s in %s\nin a scenario: plane: {release: %s, etcd: %s}\n", p.Kubernetes, p.Etcd, p.Folder, p.Kubernetes, p.Etcd)
	return err
}

func planeListVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the control planes that scenarios can name",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tool, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find own executable: %w", err)
			}
			cache, err := release.UserCache()
			if err != nil {
				return err
			}
			kept, err := cache.List()
			if err != nil {
				return err
			}
			if beside, ok := release.Beside(tool); ok {
				kept = append([]release.Kept{beside}, kept...)
			}
			return printPlanes(env, kept)
		},
	}
}

// buildAgain is what to do with a folder of a cache that cannot be used.
const buildAgain = ": delete the folder, or build it again"

// printPlanes prints planes as a table; what cannot be started follows it.
func printPlanes(env *environment, kept []release.Kept) error {
	table, unusable := text.Table{Head: []string{"kubernetes", "etcd", "compiled by", "size", "folder"}, Left: 5}, []string(nil)
	for _, k := range kept {
		if k.Err != nil {
			unusable = append(unusable, k.Err.Error()+buildAgain)
			continue
		}
		var bytes int64
		for _, f := range k.Executables {
			bytes += f.Bytes
		}
		compiler := k.Go
		if compiler == "" {
			compiler = "imported"
		}
		table.Rows = append(table.Rows, []string{k.Kubernetes, k.Etcd, compiler, unit.Bytes(bytes).Human(), k.Folder})
	}
	var b strings.Builder
	if table.Text(&b); len(table.Rows) == 0 {
		b.Reset()
		fmt.Fprintf(env.stderr, "no plane: `windtunnel plane build %s` builds the default one\n", release.Default)
	}
	fmt.Fprint(env.stdout, b.String())
	for _, line := range unusable {
		fmt.Fprintln(env.stderr, line)
	}
	return nil
}

func planeCheckVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "check MINOR",
		Short: "Find the newest patch of a minor release that can be built",
		Long: "check asks the module proxy that GOPROXY names which patches of the minor release it has\n" +
			"with all modules that a plane needs, and prints the newest. The exit code is 1 if there is\n" +
			"none.",
		Example: "  windtunnel plane check v1.34",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
			defer cancel()
			whole, others, err := release.Check(ctx, args[0], env.stderr)
			if err != nil {
				return err
			}
			for _, r := range others {
				fmt.Fprintf(env.stderr, "%s is not whole: the module proxy lacks %s\n", r.Kubernetes, strings.Join(r.Missing, ", "))
			}
			if whole == nil {
				fmt.Fprintf(env.stderr, "no release %s.x is whole\n", args[0])
				return verdictError{slo.Fail}
			}
			fmt.Fprintf(env.stdout, "%s with etcd %s: all modules are there\n", whole.Kubernetes, whole.Etcd)
			return nil
		},
	}
}

func planeImportVerb(env *environment) *cobra.Command {
	var sums string
	verb := &cobra.Command{
		Use:   "import DIR",
		Short: "Take the executables of a release into the cache",
		Long: "import copies etcd, kube-apiserver, kube-scheduler and kube-controller-manager of a folder\n" +
			"into the cache, where scenarios find them by release. With --sums it compares each with its\n" +
			"SHA-256 or SHA-512 first.",
		Example: "  windtunnel plane import kubernetes/server/bin --sums SHA512SUMS",
		Args:    cobra.ExactArgs(1),
	}
	verb.Flags().StringVar(&sums, "sums", "", "`FILE` of lines HEX NAME that must match, as sha256sum and sha512sum print them")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		cache, err := release.UserCache()
		if err != nil {
			return err
		}
		known := ""
		if sums != "" {
			raw, err := os.ReadFile(sums)
			if err != nil {
				return fmt.Errorf("read the sums: %w", err)
			}
			known = string(raw)
			if strings.TrimSpace(known) == "" {
				return errors.New("--sums " + sums + ": the file is empty")
			}
		}
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
		defer cancel()
		p, err := release.Import(ctx, cache, args[0], known)
		if err != nil {
			return err
		}
		return printPlane(env, p)
	}
	return verb
}
