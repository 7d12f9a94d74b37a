package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/testr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/windtunnel/windtunnel"
	"github.com/windtunnel/windtunnel/examples/operator/website"
)

// Both tests boot a control plane: they take half a minute each, and are skipped
// under -short.

// unsure says that a run which cannot tell is no fault of the operator: a
// developer's machine does other things meanwhile. A CI machine is there to tell.
func unsure() bool { return os.Getenv("CI") == "" }

// TestScale flies scale.yaml with the operator in this process: its breakpoints
// and its coverage are those of the test.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a control plane")
	}
	ctrl.SetLogger(testr.New(t))
	run := windtunnel.Fly(t, windtunnel.Flight{
		File:    "scale.yaml",
		Set:     map[string]string{"websites": "40", "rate": "10", "nodes": "5", "ready": "30", "memory": "512"},
		Subject: "operator",
		Unsure:  unsure(),
		Manager: func(ctx context.Context, s windtunnel.Subject) error {
			return website.Run(ctx, s.Config, website.Options{Metrics: s.MetricsAddress, Workers: 4, Ready: s.Ready})
		},
	})
	run.AtLeast(t, "reconcile_rate_rate_reconciliations_per_second_operator", 1)
}

// TestScaleWithLimits flies the same with the operator as a command that gets half
// a core, as it would in a cluster.
func TestScaleWithLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a control plane")
	}
	binary := filepath.Join("bin", "operator")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := windtunnel.Fly(t, windtunnel.Flight{
		File:   "scale.yaml",
		Set:    map[string]string{"websites": "40", "rate": "10", "nodes": "5", "ready": "30", "cpu": "0.5"},
		Unsure: unsure(),
	})
	run.AtMost(t, "peak_rss_bytes_operator", 256<<20)
	if _, err := os.Stat(filepath.Join(run.Dir, "logs", "operator.log")); err != nil {
		t.Error(err)
	}
}
