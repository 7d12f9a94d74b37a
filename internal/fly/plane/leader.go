package plane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.MetricsURL, nil)
	if err != nil {
		return false
	}
	answer, err := ask.client.Do(req)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	return err == nil && saysLeader(string(text))
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
	all := processesOf(p, name)
	if len(all) == 0 {
		return fmt.Errorf("roll %s: the plane has no such component: %w", name, ErrNoFault)
	}
	if i := slices.IndexFunc(all, func(c Component) bool { return c.leads(ctx) }); i >= 0 {
		all = append(slices.Delete(slices.Clone(all), i, i+1), all[i])
	}
	for i, c := range all {
		if i > 0 {
			if err := clock.Sleep(ctx, between); err != nil {
				return err
			}
		}
		if err := c.Terminate(); err != nil {
			return err
		}
		if err := c.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}
