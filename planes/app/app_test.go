package app_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/planes/app"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
)

func TestVerbsSayWhatIsWrong(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := endpoint.Plain("http://127.0.0.1:1").WriteKubeconfig(kubeconfig); err != nil { // where nothing listens
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"app-controller --profile v9":                          "want one of improved, v175, v18",
		"app-controller --concurrent-reconciles 0":             "concurrent-reconciles",
		"app-controller --application-re-sync-period 0s":       "application-re-sync-period",
		"app-controller --application-revision-limit -1":       "application-revision-limit",
		"app-controller --resync-jitter 2":                     "resync-jitter",
		"app-controller --kube-api-qps 0":                      "QPS/BURST",
		"app-controller --gc-passes 3":                         "want 1 or 2",
		"app-controller --feature-gates ZstdTracker=true":      `gate "ZstdTracker"`,
		"app-controller --feature-gates ZstdResourceTracker":   "NAME=true",
		"app-controller --shard-idd=x":                         "shard-idd",
		"app-controller --kubeconfig /none/such --profile v18": "read kubeconfig",
	} {
		t.Run(args, func(t *testing.T) {
			root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
			root.AddCommand(app.Verbs(cli.Host{Stdout: io.Discard, Stderr: io.Discard, Interruptible: context.WithCancel})...)
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
