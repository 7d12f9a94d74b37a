package workload

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/reader"
	"github.com/windtunnel/windtunnel/scenario"
)

// ClientsOf returns the clients that send a step's calls; nil: the load generator does.
func (w *Workload) ClientsOf(name string) *load.Clients {
	step := w.StepNamed(name)
	if step == nil || step.Clients == nil {
		return nil
	}
	c := step.Clients
	out := &load.Clients{Name: c.Name, Count: c.Count, Connections: c.Connections, Seed: w.SeedOf(name)}
	out.Certificates = c.HasCertificates()
	if c.Limiter != nil {
		out.QPS, out.Burst = c.Limiter.QPS, c.Limiter.Burst
	}
	if r := c.Reader; r != nil {
		speed := reader.Speed{Rate: float64(r.Rate)}
		if r.Stall != nil {
			speed.Stalls, speed.After, speed.For = true, time.Duration(r.Stall.After), time.Duration(r.Stall.For)
		}
		out.Reader = func() load.Reader { return reader.New(speed) }
	}
	if w.WantsJSON(name) {
		out.Accept = load.JSON
	}
	out.Identity = func(client int) load.Identity {
		who := load.Identity{UserAgent: scenario.ForClient(c.UserAgent, client)}
		if c.As != nil {
			who.User = scenario.ForClient(c.As.User, client)
			for _, group := range c.As.Groups {
				who.Groups = append(who.Groups, scenario.ForClient(group, client))
			}
		}
		return who
	}
	return out
}

// WantsJSON tells whether a step's clients speak JSON alone.
func (w *Workload) WantsJSON(name string) bool {
	step := w.StepNamed(name)
	return step != nil && step.Clients != nil && step.Clients.ContentType == scenario.JSONClients
}
