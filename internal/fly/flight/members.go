package flight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// members are the clusters beside the plane, and what there is in each.
type members struct {
	set    *member.Set
	all    []*steps.Member // in the scenario's order
	stages map[string]stages.Set
}

// compileMembers compiles what nodes of members do, so that a faulty stage is known
// before anything is started.
func compileMembers(s *scenario.Scenario, folder string) (members, error) {
	out := members{set: &member.Set{}, stages: map[string]stages.Set{}}
	for _, m := range s.Members {
		if _, err := stages.Compile(scenario.Fleet{Stages: m.Stages}, folder); err != nil { // the hollow members' process has its own
			return out, fmt.Errorf("members %s: %w", m.Name, err)
		}
		if m.Fleet == nil {
			continue
		}
		compiled, err := stages.Compile(*m.Fleet, folder)
		if err != nil {
			return out, fmt.Errorf("members %s: %w", m.Name, err)
		}
		out.stages[m.Name] = compiled
	}
	return out, nil
}

// startMembers starts the scenario's members.
func (r *run) startMembers(ctx context.Context) error {
	if len(r.scenario.Members) == 0 {
		return nil
	}
	return r.trackPart(ctx, "members", func() error {
		var shared func(context.Context, member.HollowGroup) ([]member.HollowReach, int, error)
		if r.options.Workers.Fleets > 0 {
			shared = r.workers.ServeMembers
		}
		set, err := member.Start(ctx, r.plane, r.scenario.Members, member.Options{
			Options: plane.Options{
				LogDir: r.dir.File(record.LogFolder), BaseDir: filepath.Dir(r.options.File), Log: r.log, Clock: r.clock,
				TerminateTLS: r.workload.SlowsMembers(), Seed: r.scenario.Seed,
			},
			Programs: r.scenario.Plane, Linked: r.workload.LinksMember, Hollow: shared,
		})
		r.members.set, r.dir.manifest.Members = set, set.Facts()
		if err != nil {
			return bootError{err}
		}
		r.workload.Members.Use(set.Folder(), r.workload.Bodies)
		return r.dir.saveManifest()
	})
}

// reachMembers gives the load a client for each member. Those of a group serve the
// same: one of them is asked what that is.
func (r *run) reachMembers() error {
	like := map[string]int{}
	for _, m := range r.members.set.All() {
		target, err := r.generator.AddMember(m.Endpoint(plane.Load), like[m.Group])
		if err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
		if like[m.Group] == 0 {
			like[m.Group] = target
		}
		r.members.all = append(r.members.all, &steps.Member{Member: m, Target: target, Created: steps.NewCreated()})
	}
	return nil
}

// populateMembers makes the scenario's namespaces in the members that steps are
// about, and starts the fleets of the members.
func (r *run) populateMembers(ctx context.Context) error {
	if len(r.members.all) == 0 {
		return nil
	}
	inMembers := false
	for step := range r.scenario.AllSteps() {
		inMembers = inMembers || step.Cluster != ""
	}
	return r.trackPart(ctx, "members-populate", func() error {
		if inMembers {
			if err := steps.Each(ctx, r.members.all, r.makeNamespaces); err != nil {
				return err
			}
		}
		for i := range r.scenario.Members {
			if group := &r.scenario.Members[i]; group.Fleet != nil && group.Fleet.Nodes > 0 {
				if err := r.startFleets(ctx, group); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// makeNamespaces makes the scenario's namespaces in a member. Nothing in it makes
// service accounts, so that none is waited for.
func (r *run) makeNamespaces(ctx context.Context, m *steps.Member) error {
	for i := range r.scenario.Namespaces.Count {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, r.workload.Namespace(i))
		answer, err := r.generator.MemberClient(m.Target).Do(ctx, &wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces", ContentType: load.JSON, Body: body})
		if err == nil && !answer.Success() {
			err = answer.Refusal()
		}
		if err != nil {
			return fmt.Errorf("make namespace %s: %w", r.workload.Namespace(i), err)
		}
	}
	return nil
}

// startFleets starts the nodes of a group's members, in all at the same time, and waits
// until they can be scheduled to.
func (r *run) startFleets(ctx context.Context, group *scenario.Members) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(group.Fleet.Within))
	defer cancel()
	var own []*steps.Member
	for _, m := range r.members.all {
		if m.Group == group.Name {
			own = append(own, m)
		}
	}
	var mu sync.Mutex // of atEnd
	acts := r.members.stages[group.Name]
	return steps.Each(ctx, own, func(ctx context.Context, m *steps.Member) error {
		f, err := fleet.Start(context.WithoutCancel(ctx), *group.Fleet, fleet.Options{
			Endpoint: m.Endpoint(plane.Fleet), Records: r.dir.records, Clock: r.clock, Log: r.log, Seed: r.scenario.Seed + uint64(m.Target),
			Cluster: m.Name, Name: m.Name, Stages: acts.Machine, Objects: acts.Objects, Connections: cmp.Or(group.Fleet.Connections, connectionsOfMember),
			Version: r.options.Versions["windtunnel"],
		})
		if err != nil {
			return err
		}
		mu.Lock()
		r.atEnd(func() {
			if err := f.Close(); err != nil {
				r.log.Warn("a fleet did not end cleanly", slog.String("member", m.Name), slog.Any("error", err))
			}
		})
		mu.Unlock()
		if err := f.Ready(ctx); err != nil {
			return fmt.Errorf("its %s did not all become schedulable within %v: %w", unit.Count(group.Fleet.Nodes, "nodes"), group.Fleet.Within, err)
		}
		return nil
	})
}

// connectionsOfMember is how many connections the nodes of one of many members share.
const connectionsOfMember = 4

// watchDeaths ends the run when a component of the plane dies, and notes when a
// member does that the scenario can do without.
func (r *run) watchDeaths(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		select {
		case death := <-r.plane.Died():
			r.dir.newJournal().Died(death.Component, death.Err)
			if death.Member && r.survivesMember(death.Component) {
				r.dir.addWarning(fmt.Sprintf("member %s died, and the run went on: %v", death.Component, death.Err))
				continue
			}
			cancel(fmt.Errorf("%s died: %w", death.Component, death.Err))
			return
		case death := <-r.senders.Died():
			err := errors.New(death.Why)
			r.dir.newJournal().Died(death.Subject, err)
			cancel(fmt.Errorf("%s died: %w", death.Subject, err))
			return
		case <-ctx.Done():
			return
		}
	}
}

// survivesMember tells whether the run goes on without a member.
func (r *run) survivesMember(name string) bool {
	i := slices.IndexFunc(r.scenario.Members, func(m scenario.Members) bool { return slices.Contains(m.MemberNames(), name) })
	return i >= 0 && r.scenario.Members[i].OnDeath == "continue"
}
