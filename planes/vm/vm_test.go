package vm_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
	"github.com/windtunnel/windtunnel/planes/vm"
)

func TestVerbsSayWhatIsWrong(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := endpoint.Plain("http://127.0.0.1:1").WriteKubeconfig(kubeconfig); err != nil { // where nothing listens
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"vm-controller --kubeconfig /none/such":         "read kubeconfig",
		"vm-agent --shard 3/2 --kubeconfig x":           "--shard",
		"vm-agent --log-level loud --kubeconfig x":      "--log-level",
		"vm-webhook --kubeconfig=":                      "none given",
		"vm-controller --limiter 5 --kubeconfig x":      "QPS/BURST",
		"vm-controller --limitr 5/10":                   "limitr",
		"vm-controller --limiter fast":                  "QPS/BURST",
		"vm-controller --threads 0":                     "threads",
		"vm-controller --overhead-ratio 0":              "overhead-ratio",
		"vm-controller --node-timeout 0s":               "node-timeout",
		"vm-controller --migrations-per-source 0":       "migrations-per-source",
		"vm-agent --threads 0":                          "threads",
		"vm-agent --heartbeat 0s":                       "heartbeat",
		"vm-agent --scope all":                          "scope",
		"vm-agent --hypervisor xen":                     "hypervisor",
		"vm-agent --spread -1":                          "spread",
		"vm-agent --fault-selector (":                   "selector",
		"vm-agent --stuck-finalizers 2 --max-devices 0": "shares",
	} {
		t.Run(args, func(t *testing.T) {
			root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(vm.Verbs(cli.Host{Stdout: io.Discard, Stderr: io.Discard, Interruptible: context.WithCancel})...)
			fields := strings.Fields(args)
			if !strings.Contains(args, "--kubeconfig") {
				fields = append(fields, "--kubeconfig", kubeconfig)
			}
			root.SetArgs(fields)
			if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
