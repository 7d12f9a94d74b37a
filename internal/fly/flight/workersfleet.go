package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// keeperGroup are the workers that keep nodes alive.
func (c WorkerSettings) keeperGroup() protocol.Group {
	return protocol.Group{From: c.Workers, Below: c.countAll()}
}

// checkFleets says what keeps a run's fleet from being shared.
func (r *run) checkFleets() error {
	var errs []error
	f, n := r.scenario.Fleet, r.options.Workers.Fleets
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: --fleet-workers %d: %s", r.options.File, n, fmt.Sprintf(format, args...)))
	}
	hollow, shared := hollowMembers(r.scenario), len(sharableSubjects(r.scenario))
	switch most := max(f.Nodes, hollow, shared); {
	case most == 0:
		refuse("the plane has no nodes that could be shared, there is neither hollow member nor sharable subject, and nodes of members stay where the leader is: leave it out")
	case f.Nodes == 0 && most < n:
		refuse("the scenario has %s and %s, and some workers would have none; use --fleet-workers %d or fewer", unit.Count(hollow, "hollow members"), unit.Count(shared, "sharable subjects"), most)
	case f.Nodes > 0 && f.Nodes < n:
		refuse("the fleet has %s, and some workers would have none; use --fleet-workers %d or fewer", unit.Count(f.Nodes, "nodes"), f.Nodes)
	case f.Connections > 0 && f.Connections < n:
		refuse("fleet.connections: %d are those of all workers, and some would have none; use --fleet-workers %d or fewer", f.Connections, f.Connections)
	}
	if err := r.checkShared(); err != nil {
		errs = append(errs, err)
	}
	for step := range r.scenario.AllSteps() {
		if d := step.Fault; d != nil && (d.Nodes != nil || d.Pods != nil) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w: it chooses among all nodes and pods, of which each worker knows its own; run it without --fleet-workers", r.options.File, step.Line, step.Name, ErrWorkers))
		}
	}
	return errors.Join(errs...)
}

// keptNodes is what a worker says of its share before it makes the nodes.
type keptNodes struct {
	Share share.Share `json:"share"`
	Nodes int         `json:"nodes"`
}

// populateByCrew has the workers make the fleet's nodes, each its own, and waits until
// all can be scheduled to. They keep them alive until they leave.
func (r *run) populateByCrew(ctx context.Context) error {
	c := r.options.Workers
	err := r.keepUntilEnd(ctx, c.keeperGroup(), keeperPart{Nodes: true}, func(worker int, said json.RawMessage) error {
		var got keptNodes
		if err := json.Unmarshal(said, &got); err != nil {
			return err
		}
		part := share.Share{Index: worker - c.Workers, Of: c.Fleets}
		if want := (keptNodes{part, part.Count(r.scenario.Fleet.Nodes)}); got != want {
			return fmt.Errorf("%w: it has planned other nodes than the leader: %+v, not %+v", ErrWorkers, got, want)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the fleet's %s did not all become schedulable: %w", unit.Count(r.scenario.Fleet.Nodes, "nodes"), err)
	}
	r.dir.newJournal().FleetReady(r.scenario.Fleet.Nodes)
	return nil
}
