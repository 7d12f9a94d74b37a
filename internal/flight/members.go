package flight

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// members are the clusters beside the plane, and what there is in each.
type members struct {
	all []*steps.Member // in the scenario's order
}

// startMembers starts the scenario's members.
func (r *run) startMembers(ctx context.Context) error {
	if len(r.scenario.Members) == 0 {
		return nil
	}
	return r.track(ctx, "members", func() error {
		err := r.plane.StartMembers(ctx, r.scenario.Members, plane.MemberOptions{
			Options: plane.Options{
				LogDir: r.dir.File(record.LogFolder), BaseDir: filepath.Dir(r.options.File), Log: r.log, Clock: r.clock,
				TerminateTLS: r.workload.SlowsMembers(), Seed: r.scenario.Seed,
			},
			Plane: r.scenario.Plane, Linked: r.workload.LinksMember,
		})
		r.dir.manifest.Members = r.plane.MemberFacts()
		if err != nil {
			return bootError{err}
		}
		return r.dir.saveManifest()
	})
}

// reachMembers gives the load a client for each member. Those of a group serve the
// same: one of them is asked what that is.
func (r *run) reachMembers() error {
	like := map[string]int{}
	for _, m := range r.plane.Members() {
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

// watchDeaths ends the run when a component of the plane dies, and notes when a
// member does that the scenario can do without.
func (r *run) watchDeaths(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		select {
		case death := <-r.plane.Died():
			r.dir.journal().Died(death.Component, death.Err)
			if death.Member && r.survives(death.Component) {
				r.dir.warn(fmt.Sprintf("member %s died, and the run went on: %v", death.Component, death.Err))
				continue
			}
			cancel(fmt.Errorf("%s died: %w", death.Component, death.Err))
			return
		case <-ctx.Done():
			return
		}
	}
}

// survives tells whether the run goes on without a member.
func (r *run) survives(name string) bool {
	i := slices.IndexFunc(r.scenario.Members, func(m scenario.Members) bool { return slices.Contains(m.MemberNames(), name) })
	r.log.Debug("a member died", slog.String("member", name))
	return i >= 0 && r.scenario.Members[i].OnDeath == "continue"
}
