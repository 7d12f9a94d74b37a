package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestHelp holds the help of every verb as people read it.
func TestHelp(t *testing.T) {
	t.Setenv("KUBECONFIG", "") // which is the default of some flags
	root := rootVerb(&environment{stdout: io.Discard, stderr: io.Discard})
	root.InitDefaultHelpCmd()
	b := &strings.Builder{}
	helpOf(b, root)
	repotest.Golden(t, "testdata/help.golden", b.String())
}

func helpOf(b *strings.Builder, verb *cobra.Command) {
	if verb.Name() == "help" || verb.Name() == "completion" {
		return // cobra's own
	}
	verb.SetOut(b)
	b.WriteString("== " + verb.CommandPath() + "\n")
	_ = verb.Help() // into memory
	b.WriteString("\n")
	for _, child := range verb.Commands() {
		if !child.Hidden {
			helpOf(b, child)
		}
	}
}

// placeholder is how the value of a flag is named: one word in capitals, or a value that
// it may have.
var placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9.=:/\[\]-]*(=[A-Z.]+(\.\.[A-Z]+)?)?$|^[a-z0-9]+$`)

// TestFlagsStandAlone holds that the line of each flag says what its value is without the
// flag's name before it.
func TestFlagsStandAlone(t *testing.T) {
	var look func(verb *cobra.Command)
	look = func(verb *cobra.Command) {
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			name, usage := pflag.UnquoteUsage(f)
			switch first, _, _ := strings.Cut(usage, " "); {
			case f.Hidden:
			case name != "" && !placeholder.MatchString(name):
				t.Errorf("%s --%s: the placeholder %q is more than a word", verb.CommandPath(), f.Name, name)
			case first == "of" || first == "that" || first == "to" || first == "between" || first == "so":
				t.Errorf("%s --%s: %q begins in the middle of a sentence", verb.CommandPath(), f.Name, usage)
			}
		})
		if usage := verb.Flags().FlagUsages(); strings.Contains(usage, "(default [])") {
			t.Errorf("%s: an empty list is a default:\n%s", verb.CommandPath(), usage)
		}
		for _, child := range verb.Commands() {
			look(child)
		}
	}
	look(rootVerb(&environment{stdout: io.Discard, stderr: io.Discard}))
}

// TestFlagsHaveGroups holds that each flag of a verb with many stands in one group, and
// that the groups name flags that are there.
func TestFlagsHaveGroups(t *testing.T) {
	const many = 9
	root := rootVerb(&environment{stdout: io.Discard, stderr: io.Discard})
	seen := 0
	for _, verb := range root.Commands() {
		if verb.Hidden {
			continue
		}
		names := map[string]int{}
		for _, g := range flagGroups(verb.Name()) {
			for _, name := range g.names {
				names[name]++
				if verb.Flags().Lookup(name) == nil {
					t.Errorf("%s: the group %q names --%s, which is not there", verb.Name(), g.heading, name)
				}
			}
		}
		visible := 0
		verb.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				visible++
			}
		})
		if len(names) == 0 && visible < many {
			continue
		}
		seen++
		verb.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := names[f.Name]; !f.Hidden && n != 1 {
				t.Errorf("%s --%s stands in %d groups", verb.Name(), f.Name, n)
			}
		})
	}
	if seen < 5 {
		t.Errorf("only %d verbs have groups", seen)
	}
}
