package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/fly/subject/outline"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// subjectVerb builds and lists programs that scenarios test.
func subjectVerb(env *environment) *cobra.Command {
	verb := &cobra.Command{
		Use:   "subject",
		Short: "Build and list controllers that scenarios test, from Go modules",
		Long: "A subject is a program that a scenario tests, such as a controller. `subject build` compiles\n" +
			"one from its published module and keeps it, with the YAML files of the module, in\n" +
			"windtunnel/subjects of XDG_CACHE_HOME or ~/.cache. A scenario names it:\n" +
			"subjects: [{build: {module: sigs.k8s.io/kueue, version: v0.17.0, package: ./cmd/kueue}}].",
	}
	verb.AddCommand(subjectBuildVerb(env), subjectListVerb(env))
	return verb
}

func subjectBuildVerb(env *environment) *cobra.Command {
	var again bool
	var main string
	verb := &cobra.Command{
		Use:   "build MODULE@VERSION [PACKAGE]",
		Short: "Build a controller from its Go module",
		Long: "build fetches the module from the proxy that GOPROXY names, checks that everything that the\n" +
			"main package imports is there, and compiles it as its own go.mod says, with its replace and\n" +
			"exclude lines. PACKAGE is relative to the module's root, which is the default. It needs Go.",
		Example: "  windtunnel subject build sigs.k8s.io/kueue@v0.17.0 ./cmd/kueue",
		Args:    cobra.RangeArgs(1, 2),
	}
	verb.Flags().BoolVar(&again, "again", false, "build it also if the cache has it, and replace that")
	verb.Flags().StringVar(&main, "main", "", "compile this Go `FILE`, a main package that imports the module, in place of PACKAGE")
	verb.RunE = func(cmd *cobra.Command, args []string) error {
		if main != "" && len(args) > 1 {
			return fmt.Errorf("subject build: --main %s is compiled in place of PACKAGE %s: leave out one or the other", main, args[1])
		}
		cache, err := program.UserCache()
		if err != nil {
			return err
		}
		wanted := scenario.Build{Package: strings.Join(args[1:], "")}
		if main != "" {
			wanted.Main, wanted.Folder = filepath.Base(main), filepath.Dir(main)
		}
		wanted.Module, wanted.Version, _ = strings.Cut(args[0], "@")
		ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
		defer cancel()
		p, err := program.Builder{Cache: cache, Progress: env.stderr}.Build(ctx, wanted, again)
		if err != nil {
			return err
		}
		printProgram(env, p)
		return nil
	}
	return verb
}

// printProgram says what was built, which objects its module has, and how a scenario names it.
func printProgram(env *environment, p program.Program) {
	fmt.Fprintf(env.stdout, "%s %s, %s in %s\n", p.Module.Path, p.Module.Version, p.Package, p.Folder)
	for _, list := range []struct {
		what  string
		files []string
	}{{"CustomResourceDefinitions", p.Definitions}, {"other objects", p.Manifests}} {
		if len(list.files) > 0 {
			fmt.Fprintf(env.stdout, "%s with %s:\n", unit.Count(len(list.files), "files"), list.what)
			for _, pattern := range program.Patterns(list.files) {
				fmt.Fprintln(env.stdout, "  "+pattern)
			}
		}
	}
	var crds string
	if patterns, _ := outline.Definitions(p); len(patterns) > 0 {
		crds = fmt.Sprintf(", crds: [%s]", strings.Join(patterns, ", "))
	}
	compiled := "package: " + p.Package
	if p.Main != "" {
		compiled = "main: " + p.Main
	}
	fmt.Fprintf(env.stdout, "in a scenario: build: {module: %s, version: %s, %s%s}\n", p.Module.Path, p.Module.Version, compiled, crds)
}

func subjectListVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the controllers that were built",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cache, err := program.UserCache()
			if err != nil {
				return err
			}
			kept, err := cache.List()
			if err != nil {
				return err
			}
			table := text.Table{Head: []string{"module", "version", "package", "compiled by", "size", "folder"}, Left: 6}
			for _, k := range kept {
				if k.Err != nil {
					fmt.Fprintln(env.stderr, k.Err.Error()+buildAgain)
					continue
				}
				table.Rows = append(table.Rows, []string{k.Module.Path, k.Module.Version, k.Package, k.Go, unit.Bytes(k.Executables[0].Bytes).Human(), k.Folder})
			}
			if len(table.Rows) == 0 {
				fmt.Fprintln(env.stderr, "no subject: `windtunnel subject build MODULE@VERSION [PACKAGE]` builds one")
				return nil
			}
			var b strings.Builder
			table.Text(&b)
			fmt.Fprint(env.stdout, b.String())
			return nil
		},
	}
}
