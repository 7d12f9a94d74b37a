package plane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
)

// leaderWithin is how long a leader is waited for: longer than any election and lease.
const leaderWithin = time.Minute

// Find returns a component by name, as Component does; NAME-leader is the process that leads
// those of NAME now. Where none does, it waits for an election.
func (p *Plane) Find(ctx context.Context, name string) (Component, error) {
	if c, ok := p.Component(name); ok {
		return c, nil
	}
	of, leads := strings.CutSuffix(name, component.Leader(""))
	if !leads || len(processesOf(p, of)) == 0 {
		return Component{}, fmt.Errorf("the plane has no such component: %w", ErrNoFault)
	}
	ctx, cancel := context.WithTimeout(ctx, leaderWithin)
	defer cancel()
	var found Component
	err := pollUntil(ctx, p.log, "a leader of "+of, func(ctx context.Context) error {
		for _, c := range processesOf(p, of) {
			if c.leads(ctx) {
				found = c
				return nil
			}
		}
		return fmt.Errorf("none of %s says that it leads", of)
	}, func() error { return nil })
	return found, err
}

// processesOf returns the processes of a component that windtunnel has started.
func processesOf(p *Plane, name string) []Component {
	return slices.DeleteFunc(p.Components(), func(c Component) bool {
		return c.supervisor == nil || c.supervisor.guest || c.supervisor.role != NoRole || !component.Is(c.Name, name)
	})
}

// leads tells whether a process says of itself, in its metrics, that it leads.
func (c Component) leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // one that is paused answers nothing
	defer cancel()
	ask, err := newAsker(c.Scrape)
	if err != nil {
		return false
	}
	defer ask.client.CloseIdleConnections()
	text, err := ask.readText(ctx, c.MetricsURL)
	return err == nil && saysLeader(text)
}

// saysLeader reads metrics: of etcd, and of who holds a Lease.
func saysLeader(metrics string) bool {
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if (name == "etcd_server_is_leader" || strings.HasPrefix(name, "leader_election_master_status{")) && value == "1" {
			return true
		}
	}
	return false
}

// Roll ends and starts the processes of a component one after another, who leads at the
// beginning last; between is the time from one being ready to the end of the next. It returns
// when all are ready, or the first is not.
func Roll(ctx context.Context, p *Plane, name string, between time.Duration) error {
	err := ForEachProcess(ctx, p, name, between, func(c Component) error {
		if err := c.Terminate(); err != nil {
			return err
		}
		return c.Restart(ctx)
	})
	if err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	return nil
}
