package windtunnel_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// built returns the binary that `make build` left.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a real plane")
	}
	if path := os.Getenv(windtunnel.EnvBinary); path != "" {
		return path
	}
	path := filepath.Join("bin", "windtunnel")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no windtunnel with a control plane: run `make build` first: %v", err)
	}
	return path
}

// maps is a scenario that makes some ConfigMaps.
func maps() *scenario.Scenario {
	most := 20.0
	s := scenario.Default()
	s.Name = "maps"
	s.Bodies = map[string]scenario.Body{"map": {Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Name }}\", namespace: \"{{ .Namespace }}\"}\n"}}
	s.Steps = []scenario.Step{{Name: "maps", Create: &scenario.Create{Body: "map", Count: 40, Pace: scenario.Pace{Constant: 20}}}}
	s.Objectives = []scenario.Objective{{Name: "answers", SLI: "call-latency", Statistic: "p99", Max: &most}}
	return &s
}

// TestFlightsShareARealPlane flies twice on one plane: a manager in this process
// sees what the load makes, finds the definitions that the flight installs, and
// nothing of a flight is there after it.
func TestFlightsShareARealPlane(t *testing.T) {
	binary := built(t)
	plane := windtunnel.Up(t, windtunnel.UpOptions{Binary: binary})
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			run := windtunnel.Fly(t, windtunnel.Flight{
				Scenario: maps(), Plane: plane, Binary: binary, CRDs: []string{"examples/operator/config"}, Unsure: true,
				Manager: func(ctx context.Context, s windtunnel.Subject) error { return count(ctx, s, &seen) },
			})
			if seen.Load() != 40 {
				t.Errorf("the manager saw %d of 40 maps", seen.Load())
			}
			run.AtLeast(t, "calls_total", 40)
			run.AtLeast(t, "peak_rss_bytes_manager", 1<<20)
			if !served(t, plane.Config, "v1") || served(t, plane.Config, "demo.windtunnel.dev/v1") {
				t.Error("the definition is still there after the flight")
			}
		})
	}
}

// count watches ConfigMaps and counts those of the load.
func count(ctx context.Context, s windtunnel.Subject, seen *atomic.Int64) error {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	if _, err := client.Discovery().ServerResourcesForGroupVersion("demo.windtunnel.dev/v1"); err != nil {
		return err
	}
	watch, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watch.Stop()
	s.Ready()
	for e := range watch.ResultChan() {
		if o, ok := e.Object.(metav1.Object); ok && e.Type == "ADDED" && o.GetNamespace() == "maps-1" && o.GetName() != "kube-root-ca.crt" {
			seen.Add(1)
		}
	}
	return ctx.Err()
}

// served says whether a group and version is served.
func served(t *testing.T, config *rest.Config, version string) bool {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	repotest.NoError(t, err)
	_, err = client.Discovery().ServerResourcesForGroupVersion(version)
	return err == nil
}
