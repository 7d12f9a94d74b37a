package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
			fmt.Fprintf(env.stdout, "%s: %d pages\n", args[0], n)
			return nil
		},
	}
}

// writeManual writes the page of a verb and those of the verbs below it.
func writeManual(verb *cobra.Command, folder string) (pages int, err error) {
	path := filepath.Join(folder, manName(verb)+".1")
	if err := os.WriteFile(path, []byte(manPage(verb)), 0o644); err != nil {
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

func manName(verb *cobra.Command) string { return strings.ReplaceAll(verb.CommandPath(), " ", "-") }

// manPage writes the page of one verb in the macros of man(7).
func manPage(verb *cobra.Command) string {
	verb.InitDefaultHelpFlag()
	p := &page{}
	p.macro("TH", strings.ToUpper(manName(verb)), "1", "", "windtunnel "+version, "windtunnel")
	p.macro("SH", "NAME")
	p.text(escapeRoff(manName(verb)) + ` \- ` + escapeRoff(verb.Short))
	p.macro("SH", "SYNOPSIS")
	p.text(`\fB` + escapeRoff(verb.CommandPath()) + `\fR` + escapeRoff(strings.TrimPrefix(verb.UseLine(), verb.CommandPath())))
	if verb.Long != "" {
		p.macro("SH", "DESCRIPTION")
		p.verbatim(verb.Long)
	}
	p.flags("OPTIONS", verb.NonInheritedFlags())
	if verb.HasAvailableSubCommands() {
		p.macro("SH", "VERBS")
		for _, sub := range verb.Commands() {
			if sub.IsAvailableCommand() {
				p.macro("TP")
				p.text(`\fB` + escapeRoff(manName(sub)) + `\fR(1)`)
				p.text(escapeRoff(sub.Short))
			}
		}
	}
	if verb.Example != "" {
		p.macro("SH", "EXAMPLES")
		p.verbatim(verb.Example)
	}
	p.macro("SH", "EXIT STATUS")
	p.text("0 pass, 1 fail, 2 unknown, 3 the tool or its input is at fault.")
	if verb.HasParent() {
		p.macro("SH", "SEE ALSO")
		p.text(`\fB` + escapeRoff(manName(verb.Parent())) + `\fR(1)`)
	}
	return p.String()
}

// page is a manual page that is being written.
type page struct{ strings.Builder }

func (p *page) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, a := range args {
		fmt.Fprintf(p, ` "%s"`, strings.ReplaceAll(escapeRoff(a), `"`, `\(dq`))
	}
	p.WriteByte('\n')
}

// text writes a line, which may have changes of font in it.
func (p *page) text(s string) { p.WriteString(s + "\n") }

// verbatim writes lines as they are.
func (p *page) verbatim(s string) {
	p.macro("nf")
	p.WriteString(escapeRoff(s) + "\n")
	p.macro("fi")
}

func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		names := `\fB` + escapeRoff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB` + escapeRoff("-"+f.Shorthand) + `\fR, ` + names
		}
		if value != "" {
			names += ` \fI` + escapeRoff(value) + `\fR`
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		p.macro("TP")
		p.text(names)
		p.text(escapeRoff(usage))
	})
}

// escapeRoff takes from a text what roff would take for its own.
func escapeRoff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "\\(ga").Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
