package steps

import (
	"context"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/probe"
	"github.com/windtunnel/windtunnel/scenario"
)

// Probe writes objects of its own, whose records show whether an acknowledged write is lost.
type Probe struct {
	Step string
	Spec *scenario.Probe
}

// Do writes them.
func (x Probe) Do(ctx context.Context, s *Session) error {
	return probe.Run(ctx, probe.Options{
		Step: x.Step, Spec: x.Spec, Namespace: s.Workload.NamespacesOf(&scenario.Create{})[0], Stamp: s.Workload.Stamp,
		Pace: s.Workload.PaceOf(x.Step, x.Spec.Pace, x.Spec.Count), Servers: s.apiServers(), Client: s.Client,
		Records: s.Journal.Records, Clock: s.Clock, Over: afterBeside,
		Send: func(ctx context.Context, p load.Plan) error { return s.sendPlan(ctx, planned{Plan: p}) },
	})
}

// apiServers returns those of the plane.
func (s *Session) apiServers() (out []probe.Server) {
	if s.Plane != nil {
		for _, c := range s.Plane.Components() {
			if component.Is(c.Name, component.APIServer) {
				out = append(out, probe.Server{Name: c.Name, Endpoint: &c.Scrape})
			}
		}
	}
	if len(out) == 0 {
		out = append(out, probe.Server{})
	}
	return out
}
