package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/examples"
	"github.com/windtunnel/windtunnel/internal/text"
)

// examplesVerb lists the scenarios that windtunnel brings along, and writes one.
func examplesVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "examples [NAME] [DIR]",
		Short: "List the example scenarios, or write one",
		Long: "examples lists the scenarios that windtunnel brings along. With a NAME it writes the scenario\n" +
			"and the files that it refers to below DIR (default: the current folder), and overwrites\n" +
			"nothing.",
		Example: "  windtunnel examples\n  windtunnel examples density && windtunnel run density.yaml --plan\n  windtunnel examples edge/density scenarios",
		Args:    cobra.MaximumNArgs(2),
		ValidArgsFunction: firstOnly(func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			names, _ := examples.Names() // a fault shows where the verb runs
			return names, cobra.ShellCompDirectiveNoFileComp
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listExamples(env)
			}
			dir := "."
			if len(args) > 1 {
				dir = args[1]
			}
			return writeExample(env, args[0], dir)
		},
	}
}

func listExamples(env *environment) error {
	names, err := examples.Names()
	if err != nil {
		return fmt.Errorf("list examples: %w", err)
	}
	table := text.Table{Head: []string{"name", "description"}, Left: 2}
	for _, name := range names {
		raw, err := examples.Read(name)
		if err != nil {
			return err
		}
		table.Rows = append(table.Rows, []string{name, examples.Describe(raw)})
	}
	var b strings.Builder
	table.Text(&b)
	_, err = fmt.Fprint(env.stdout, b.String())
	return err
}

// writeExample writes a scenario and the files that it refers to below a folder, where
// they lie as in examples/.
func writeExample(env *environment, name, dir string) error {
	name = strings.TrimSuffix(name, ".yaml")
	raw, err := examples.Read(name)
	if err != nil {
		return explainExample(name, err)
	}
	files, err := examples.Beside(name)
	if err != nil {
		return err
	}
	files[name+".yaml"] = raw
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write example: %w", err)
	}
	root, err := os.OpenRoot(dir) // a link below it leads no writer out of it
	if err != nil {
		return fmt.Errorf("write example: %w", err)
	}
	defer root.Close()
	for _, at := range slices.Sorted(maps.Keys(files)) {
		there, err := root.ReadFile(at)
		switch {
		case err == nil && at != name+".yaml" && bytes.Equal(there, files[at]):
			delete(files, at) // another example wrote it
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("write example: %w", err)
		case err == nil:
			return fmt.Errorf("%s is there already: name another folder", filepath.Join(dir, at))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(files)) {
		if err := writeBelow(root, at, files[at]); err != nil {
			return fmt.Errorf("write example: %w", err)
		}
		fmt.Fprintln(env.stdout, "wrote", filepath.Join(dir, at))
	}
	fmt.Fprintf(env.stdout, "next: windtunnel run %s --plan\n", filepath.Join(dir, name+".yaml"))
	return nil
}

// writeBelow writes a file that is not there yet below a folder.
func writeBelow(root *os.Root, at string, content []byte) error {
	if err := root.MkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// explainExample names the example that may have been meant.
func explainExample(name string, err error) error {
	names, _ := examples.Names() // the first error is the one to tell
	if best := text.Nearest(name, names); best != "" {
		return fmt.Errorf("%w (did you mean %s?)", err, best)
	}
	return fmt.Errorf("%w; windtunnel examples lists them", err)
}
