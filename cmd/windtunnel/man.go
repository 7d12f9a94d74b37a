package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// manVerb writes manual pages, one for each verb.
func manVerb(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write manual pages, one for each verb",
		Example: "  windtunnel man ~/.local/share/man/man1\n  man windtunnel-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			n, err := writeManual(cmd.Root(), args[0])
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			fmt.Fprintf(env.stdout, "%s: %s\n", args[0], unit.Count(n, "pages"))
			return nil
		},
	}
}

// writeManual writes the page of a verb and those of the verbs below it.
func writeManual(verb *cobra.Command, folder string) (pages int, err error) {
	verb.DisableAutoGenTag = true
	if verb.Long != "" {
		verb.Long = "```\n" + verb.Long + "\n```" // its lines stay as they are
	}
	var page bytes.Buffer
	if err := doc.GenMan(verb, &doc.GenManHeader{Source: "windtunnel " + ownVersion(), Manual: "windtunnel"}, &page); err != nil {
		return 0, err
	}
	page.WriteString(".SH \"EXIT STATUS\"\n0 pass, 1 fail, 2 unknown, 3 the tool or its input is at fault.\n")
	path := filepath.Join(folder, strings.ReplaceAll(verb.CommandPath(), " ", "-")+".1")
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		return 0, err
	}
	pages = 1
	for _, sub := range verb.Commands() {
		if sub.IsAvailableCommand() {
			n, err := writeManual(sub, folder)
			if err != nil {
				return pages, err
			}
			pages += n
		}
	}
	return pages, nil
}
