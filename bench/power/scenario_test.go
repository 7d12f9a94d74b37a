package main

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// The scenarios of comparisons can be planned, and their parameters arrive
// where they should.
func TestScenarios(t *testing.T) {
	for _, file := range []string{"../../examples/compare/slower-answers.yaml", "../../examples/compare/limiter.yaml"} {
		if _, err := flight.Plan(flight.Options{File: file}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	slow := repotest.Must(scenario.Load("../../examples/compare/slower-answers.yaml", map[string]string{"factor": "1.1"}))(t)
	if f := slow.Steps[1].Fault; f == nil || f.Client != "load" || f.Factor != 1.1 {
		t.Errorf("the slower answers: %+v", f)
	}
	limited := repotest.Must(scenario.Load("../../examples/compare/limiter.yaml", map[string]string{"limiter": "5/10"}))(t)
	if flags := limited.Plane.Components["kube-controller-manager"].Flags; flags["kube-api-qps"] != "5" || flags["kube-api-burst"] != "10" {
		t.Errorf("the limiter: %v", flags)
	}
}
