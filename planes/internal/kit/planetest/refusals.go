package planetest

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// CheckRefusals runs verbs of a plane, each by a command line of want without the
// program's name, and checks that they end with an error that has the text beside it.
// Where a line names no kubeconfig, it is given that of a server that nobody runs.
func CheckRefusals(t *testing.T, verbs func(process.Host) []*cobra.Command, want map[string]string) {
	t.Helper()
	kubeconfig := WriteKubeconfig(t, endpoint.Plain("http://127.0.0.1:1"))
	for line, text := range want {
		t.Run(line, func(t *testing.T) {
			root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(verbs(process.Host{Stdout: io.Discard, Stderr: io.Discard, Interruptible: context.WithCancel})...)
			args := strings.Fields(line)
			if !strings.Contains(line, "--kubeconfig") {
				args = append(args, "--kubeconfig", kubeconfig)
			}
			root.SetArgs(args)
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("the error is %v, want %q", err, text)
			}
		})
	}
}
