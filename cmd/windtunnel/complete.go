package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// completion is what a shell asks for: candidates for the word under the cursor.
type completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// addCompletions lets shells complete the verbs' arguments: scenario files, run
// directories, and the names of parameters behind --set.
func addCompletions(root *cobra.Command) {
	for _, verb := range root.Commands() {
		addCompletions(verb)
		word, _, _ := strings.Cut(strings.TrimPrefix(verb.Use, verb.Name()+" "), " ")
		switch word {
		case "FILE", "SCENARIO":
			verb.ValidArgsFunction = firstOnly(completeScenario)
		case "RUN", "[RUN]":
			verb.ValidArgsFunction = firstOnly(completeRun)
		case "A...", "[DIR]...":
			verb.ValidArgsFunction = completeRun
		}
		for _, flag := range []string{"set", "a", "b"} {
			if verb.Flags().Lookup(flag) != nil {
				panicOnError(verb.RegisterFlagCompletionFunc(flag, completeParameter))
			}
		}
	}
}

// panicOnError is for what only a fault in this program makes fail.
func panicOnError(err error) {
	if err != nil {
		panic(err)
	}
}

// firstOnly completes the first argument and no further one.
func firstOnly(c completion) completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, word)
	}
}

func completeScenario(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeRun offers run directories, and folders on the way to them.
func completeRun(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	parent, begin := filepath.Split(word)
	if word == "" && isFolder("runs") {
		parent = "runs/"
	}
	entries, err := os.ReadDir(filepath.Join(".", parent))
	if filepath.IsAbs(parent) {
		entries, err = os.ReadDir(parent)
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	var out []string
	for _, e := range entries {
		path := parent + e.Name()
		switch {
		case !strings.HasPrefix(e.Name(), begin) || strings.HasPrefix(e.Name(), ".") && begin == "" || !isFolder(path):
		case isRun(path):
			out = append(out, path)
		default:
			out = append(out, path+"/")
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	}
	return out, directive
}

func isFolder(path string) bool {
	info, err := os.Stat(path) // a link counts as what it leads to
	return err == nil && info.IsDir()
}

func isRun(path string) bool {
	_, err := os.Stat(filepath.Join(path, record.ManifestFile))
	return err == nil
}

// completeParameter offers the scenario's parameters with their defaults.
func completeParameter(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 || strings.Contains(word, "=") {
		return nil, directive
	}
	s, err := scenario.Load(args[0], nil)
	if err != nil {
		return nil, directive
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if strings.HasPrefix(name, word) {
			out = append(out, fmt.Sprintf("%s=\tdefault %v", name, s.Values[name]))
		}
	}
	return out, directive
}
