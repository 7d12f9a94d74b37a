package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// ServeHollow makes clusters of a group's names, at an address of this machine; empty:
// the loopback's. Close the server after use.
func ServeHollow(group plane.HollowGroup, host string) (*hollow.Server, plane.HollowReach, error) {
	server, err := hollow.New(hollow.Options{Host: host, Models: hollow.Models{
		Nodes: group.Nodes, Heartbeats: group.Heartbeats, Binder: group.Binder, ServiceAccounts: group.ServiceAccounts,
		Stages: group.Stages, StagesDir: group.Folder,
	}})
	if err != nil {
		return nil, plane.HollowReach{}, err
	}
	reach, err := makeHollow(server, group.Names)
	if err != nil {
		return nil, plane.HollowReach{}, errors.Join(err, server.Close())
	}
	return server, reach, nil
}

// makeHollow makes clusters of these names.
func makeHollow(server *hollow.Server, names []string) (reach plane.HollowReach, err error) {
	control, err := server.Control()
	if err != nil {
		return reach, err
	}
	to := control.Config("")
	reach.Control, reach.ControlToken, reach.Addresses = to.Host, to.BearerToken, map[string]string{}
	for _, name := range names {
		c, err := server.Cluster(name)
		if err != nil {
			return reach, err
		}
		config := c.Endpoint().Config("")
		reach.CA, reach.Token, reach.Client = config.CAData, config.BearerToken, c.Client().Config("").BearerToken
		reach.Addresses[name] = c.Address()
	}
	return reach, nil
}

// sharedBefore says whether fleet workers have something to do before the plane's nodes
// are made: members and subjects come first.
func (r *run) sharedBefore() bool {
	return r.options.Workers.Fleets > 0 && (hollowMembers(r.scenario) > 0 || len(sharableSubjects(r.scenario)) > 0)
}

// hollowMembers is how many hollow members a scenario has.
func hollowMembers(s *scenario.Scenario) (n int) {
	for i := range s.Members {
		if s.Members[i].Kind == scenario.HollowMember {
			n += s.Members[i].Count
		}
	}
	return n
}

// sharableSubjects are the names of the subjects that fleet workers can have, in order.
func sharableSubjects(s *scenario.Scenario) (names []string) {
	for _, x := range s.Subjects {
		if x.Sharable {
			names = append(names, x.Name)
		}
	}
	return names
}

// membersByCrew has the fleet workers be a group of hollow members: of all the run's
// hollow members number i is worker i mod M's. It returns how each is reached.
func (r *run) membersByCrew(ctx context.Context, group plane.HollowGroup) ([]plane.HollowReach, int, error) {
	c := r.options.Workers
	out := make([]plane.HollowReach, len(group.Names))
	from := r.members.begun
	r.members.begun += len(group.Names)
	part := keeperPart{Members: &hollowPart{Group: group, From: from}}
	err := r.keepUntilEnd(ctx, c.keeperGroup(), part, func(worker int, said json.RawMessage) error {
		var reach plane.HollowReach
		if err := json.Unmarshal(said, &reach); err != nil {
			return err
		}
		part := share.Share{Index: worker - c.Workers, Of: c.Fleets}
		n := 0
		for i, name := range group.Names {
			if !part.Has(from + i) {
				continue
			}
			if n++; reach.Addresses[name] == "" {
				return fmt.Errorf("%w: it does not have %s", ErrWorkers, name)
			}
			out[i] = reach
		}
		if len(reach.Addresses) != n {
			return fmt.Errorf("%w: it has %s that are others'", ErrWorkers, unit.Count(len(reach.Addresses)-n, "members"))
		}
		return nil
	})
	return out, c.Fleets, err
}

// keepUntilEnd has workers do a part of what goes on until the end, and returns when it does.
func (r *run) keepUntilEnd(ctx context.Context, who protocol.Group, part keeperPart, check func(worker int, said json.RawMessage) error) error {
	outcomes, _, err := r.workers.leader.Do(ctx, who, part, check)
	if err != nil {
		return err
	}
	var errs []error
	for i, o := range outcomes {
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("worker %d: %w", who.From+i, o.Err))
		}
	}
	return errors.Join(errs...)
}

// subjectByCrew has the fleet worker whose turn it is start a subject.
func (r *run) subjectByCrew(ctx context.Context, prepared *subject.Prepared) (fact record.SubjectFact, err error) {
	c := r.options.Workers
	name := prepared.Name()
	worker := c.Workers + slices.Index(sharableSubjects(r.scenario), name)%c.Fleets
	part := subjectPart{Name: name, Self: r.options.Versions["windtunnel"], Kubeconfig: prepared.Kubeconfig}
	if part.Folder, err = filepath.Abs(filepath.Dir(r.options.File)); err == nil {
		part.Logs, err = filepath.Abs(r.dir.File(record.LogFolder))
	}
	if err == nil && r.ownsPlane() {
		part.Identity, err = os.ReadFile(prepared.Kubeconfig)
	}
	if err != nil {
		return fact, fmt.Errorf("start %s: %w", name, err)
	}
	var started subject.Started
	one := protocol.Group{From: worker, Below: worker + 1}
	outcomes, _, err := r.workers.leader.Do(ctx, one, keeperPart{Subject: &part}, func(int, json.RawMessage) error { return nil })
	switch {
	case err != nil:
		return fact, err
	case len(outcomes) != 1:
		return fact, fmt.Errorf("start %s: worker %d is not there: %w", name, worker, ErrWorkers)
	case outcomes[0].Err != nil:
		return fact, fmt.Errorf("worker %d: %w", worker, outcomes[0].Err)
	}
	if err := json.Unmarshal(outcomes[0].Ended, &started); err != nil {
		return fact, fmt.Errorf("worker %d: start %s: %w", worker, name, err)
	}
	started.Fact.Worker = &worker
	return started.Fact, started.Join(r.plane)
}

// checkShared refuses what a worker's subjects cannot be used for.
func (r *run) checkShared() error {
	var errs []error
	names := sharableSubjects(r.scenario)
	if len(names) > 0 && r.options.Workers.isElsewhere() {
		errs = append(errs, fmt.Errorf("%s: subject %s is sharable, and talks to others over this machine's loopback, which workers elsewhere do not reach: use --worker-processes", r.options.File, names[0]))
	}
	for step := range r.scenario.AllSteps() {
		if d := step.Fault; d != nil && slices.Contains(names, d.Component) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w: %s is a worker's process, which only its worker can disturb; run it without --fleet-workers", r.options.File, step.Line, step.Name, ErrWorkers, d.Component))
		}
	}
	return errors.Join(errs...)
}
