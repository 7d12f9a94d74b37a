package clusterloader2_test

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestLivesOfJobsAndClaims(t *testing.T) {
	s, notes := imported(t, map[string]string{
		"c.yaml": top + measured("JobLifecycleLatency", "action: start, labelSelector: group = test") + measured("ResourceClaimAllocationLatency", "action: start, threshold: 2m") +
			phase(bundle) + measured("JobLifecycleLatency", "action: gather") + measured("ResourceClaimAllocationLatency", "action: gather"),
		"cm.yaml": cm,
	}, clusterloader2.Options{Nodes: 1})
	if len(s.Lifecycles) != 2 {
		t.Fatalf("lives %+v\n%s", s.Lifecycles, notes)
	}
	jobs, claims := s.Observed()[0], s.Observed()[1]
	if jobs.Of != "jobs.batch" || jobs.Selector != "group = test" || fmt.Sprint(jobs.AllPhases()) != "[created started complete failed deleting deleted]" {
		t.Errorf("%+v", jobs)
	}
	if len(s.Objectives) != 1 {
		t.Fatalf("objectives %+v", s.Objectives)
	}
	o := s.Objectives[0]
	if o.SLI != "lifecycle" || o.Labels["lifecycle"] != claims.Name || o.Labels["phase"] != "created..allocated" || *o.Max != 120 || o.Statistic != "p99" {
		t.Errorf("%+v", o)
	}
	if s.PhasesOf(claims.Name) == nil || s.PhasesOf(scenario.PodLifecycle) == nil {
		t.Error("the phases of a life are not known")
	}
}
