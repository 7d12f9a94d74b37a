package windtunnel_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// A flight whose scenario is made of Go values, with a manager in the test's own
// process. It needs the program windtunnel, so that it is compiled here and not
// run.
func ExampleFly() {
	var t *testing.T // of func TestScale(t *testing.T)
	most := 5.0
	s := scenario.Default()
	s.Name = "fill"
	s.Bodies = map[string]scenario.Body{"map": {Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Name }}\"}\n"}}
	s.Steps = []scenario.Step{
		{Name: "maps", Create: &scenario.Create{Body: "map", Count: 1000, Pace: scenario.Pace{Constant: 50}}},
		{Name: "rest", Pause: unit.Duration(10 * time.Second)},
	}
	s.Objectives = []scenario.Objective{{Name: "answers", SLI: "call-latency", Statistic: "p99", Max: &most}}
	run := windtunnel.Fly(t, windtunnel.Flight{
		Scenario: &s,
		Manager: func(ctx context.Context, s windtunnel.Subject) error {
			if _, err := kubernetes.NewForConfig(s.Config); err != nil {
				return err
			}
			s.Ready()
			<-ctx.Done()
			return nil
		},
	})
	run.AtMost(t, "peak_rss_bytes_manager", 512<<20)
}

// Tests of a package share a plane: it boots once, and the flights on it are
// measured less closely.
func ExampleUp() {
	var t *testing.T
	plane := windtunnel.Up(t, windtunnel.UpOptions{})
	for _, nodes := range []string{"10", "100"} {
		windtunnel.Fly(t, windtunnel.Flight{File: "scale.yaml", Plane: plane, Set: map[string]string{"nodes": nodes}})
	}
}
