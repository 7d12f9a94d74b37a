package planes_test

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes"
)

func verbs() []*cobra.Command {
	return planes.Verbs(planes.Host{Stdout: io.Discard, Stderr: io.Discard, Interruptible: context.WithCancel})
}

// TestHelp holds the help of the planes' processes, which the help of windtunnel does not
// show.
func TestHelp(t *testing.T) {
	t.Setenv("KUBECONFIG", "") // which is the default of a flag
	b := &bytes.Buffer{}
	for _, verb := range verbs() {
		verb.SetOut(b)
		b.WriteString("== " + verb.Name() + "\n")
		_ = verb.Help() // into memory
		b.WriteString("\n")
	}
	repotest.Golden(t, "testdata/help.golden", b.Bytes())
}

// TestPlaceholders holds that the value of each flag is called by a word in capitals, which
// no type of Go is.
func TestPlaceholders(t *testing.T) {
	placeholder := regexp.MustCompile(`^[A-Z:/=]*$`)
	for _, verb := range verbs() {
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			if name, usage := pflag.UnquoteUsage(f); !placeholder.MatchString(name) || strings.TrimSpace(usage) == "" {
				t.Errorf("%s --%s %s: %q", verb.Name(), f.Name, name, usage)
			}
		})
	}
}
