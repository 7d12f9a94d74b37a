package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// readPlan makes of a plan where a worker's calls go and what the load is, and into acts,
// unless that is nil, what nodes do. Its files are there for no longer than that takes.
func readPlan(p message.Plan, kubeconfig []byte, acts *stages.Set) (e endpoint.Endpoint, w *workload.Workload, err error) {
	folder, err := os.MkdirTemp("", "windtunnel-worker-")
	if err != nil {
		return e, nil, fmt.Errorf("make a folder for the plan: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if e, err = endpointOf(p, kubeconfig); err == nil {
		w, err = compileScenario(p, folder)
	}
	if err == nil && acts != nil {
		*acts, err = stages.Compile(w.Scenario.Fleet, folder)
	}
	return e, w, err
}

// endpointOf returns where a worker's calls go.
func endpointOf(p message.Plan, kubeconfig []byte) (endpoint.Endpoint, error) {
	if p.Cluster != "" {
		return endpoint.FromKubeconfig(p.Cluster, "")
	}
	return endpoint.Parse(kubeconfig)
}

// compileScenario reads the scenario as the leader has read it.
func compileScenario(p message.Plan, folder string) (*workload.Workload, error) {
	if err := p.WriteFiles(folder); err != nil {
		return nil, err
	}
	file := filepath.Join(folder, record.ScenarioFile)
	s, err := scenario.Parse(file, p.Text, p.Set)
	if err != nil {
		return nil, err
	}
	s.Seed = p.Seed
	w, err := steps.Compile(s, file, p.Stamp)
	if err == nil {
		w.Destructive = p.Destructive
	}
	return w, err
}

// planPart plans a part on the worker's side: what others have seen is applied first,
// and what planning itself changed is none of the worker's news.
func planPart(ctx context.Context, s *steps.Session, o message.Order) (load.Plan, error) {
	s.Created.Apply(o.Known)
	p, err := s.PlanPart(ctx, o.Part)
	_ = s.Created.TakeChanges()
	return p, err
}
