package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// starts are the scenarios to begin with, and the definition that two of them
// bring.
//
//go:embed start/*.yaml
var starts embed.FS

// definitionFile is what the definition is called beside a new scenario.
const definitionFile = "widgets.yaml"

// startKinds are the scenarios that init writes.
func startKinds() []string { return []string{"density", "operator", "crd", "compare"} }

// initVerb writes a commented scenario to begin with.
func initVerb(env *environment) *cobra.Command {
	var from origin
	verb := &cobra.Command{
		Use:   "init {" + strings.Join(startKinds(), "|") + "} [FILE]",
		Short: "Write a commented scenario to start from",
		Long: "init writes a scenario with comments, FILE or KIND.yaml, and overwrites nothing:\n" +
			"  density   pods fill a cluster\n" +
			"  operator  an operator reconciles its objects\n" +
			"  crd       custom resources are created, updated and deleted\n" +
			"  compare   one setting of the control plane against another\n" +
			"operator and crd come with a CustomResourceDefinition beside them, " + definitionFile + ".\n" +
			"With --from, operator builds a published controller from its Go module and writes a folder\n" +
			"with a scenario for it: its definitions, an object of its, its flags. README.md there says\n" +
			"what could not be found. FILE is then the folder.",
		Example: "  windtunnel init density && windtunnel run density.yaml\n" +
			"  windtunnel init operator --from sigs.k8s.io/kueue@v0.17.0 --package ./cmd/kueue",
		Args:      cobra.RangeArgs(1, 2),
		ValidArgs: startKinds(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(wantOneOf("init", args[0], startKinds()...), from.check(args[0])); err != nil {
				return err
			}
			if from.module != "" {
				ctx, cancel := env.interruptibleContext(cmd.Context(), "stopping", func() {})
				defer cancel()
				return writeFrom(ctx, env, from, strings.Join(args[1:], ""))
			}
			file := args[0] + ".yaml"
			if len(args) > 1 {
				file = args[1]
			}
			return writeStart(env, args[0], file)
		},
	}
	verb.Flags().StringVar(&from.module, "from", "", "Go `MODULE` of a published controller at a version, such as sigs.k8s.io/kueue@v0.17.0")
	verb.Flags().StringVar(&from.pkg, "package", "", "main `PACKAGE` of the module, such as ./cmd/manager (default: the likely one)")
	verb.Flags().StringVar(&from.kind, "kind", "", "`KIND` of the objects to create (default: one of which the module has an example)")
	return verb
}

// writeStart writes one of the scenarios, and what it brings.
func writeStart(env *environment, kind, file string) error {
	raw, err := starts.ReadFile("start/" + kind + ".yaml")
	if err != nil {
		return err
	}
	text := strings.NewReplacer("FILE", file, "[CRDS]", "["+definitionFile+"]").Replace(string(raw))
	names := []string{file}
	if text != string(raw) && strings.Contains(text, "["+definitionFile+"]") {
		beside := filepath.Join(filepath.Dir(file), definitionFile)
		definition, err := starts.ReadFile("start/" + definitionFile)
		if err != nil {
			return err
		}
		there, _ := os.ReadFile(beside) // one that cannot be read is not ours
		if err := writeNew(beside, definition); err != nil && !slices.Equal(there, definition) {
			return err
		}
		names = slices.Insert(names, 0, beside)
	}
	if err := writeNew(file, []byte(text)); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintln(env.stdout, "wrote", name)
	}
	fmt.Fprintf(env.stdout, "next: windtunnel run %s --plan\n", file)
	return nil
}

// writeNew writes a file that is not there yet.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: name another file", name)
	}
	if err != nil {
		return fmt.Errorf("write scenario: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
