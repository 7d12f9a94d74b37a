package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/component/skew"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/scenario"
)

// Upgrade takes the plane to another release.
type Upgrade struct {
	Step string
	Spec *scenario.Upgrade
}

// wanted names the executables that a step asks for.
func wanted(u *scenario.Upgrade) release.Wanted {
	return release.Wanted{Kubernetes: u.To, Etcd: u.Etcd}
}

// changeOf returns what a step changes when these executables take over.
func changeOf(s *scenario.Scenario, u *scenario.Upgrade, to release.Plane) skew.Change {
	out := s.ChangeOf(u)
	out.Etcd, _ = skew.Parse(to.Etcd)
	return out
}

// CheckUpgrades finds the executables of all upgrade steps, and holds the releases of etcd,
// which a file need not name, against each other. It starts nothing.
func CheckUpgrades(w *workload.Workload) error {
	var errs []error
	s := w.Scenario
	now := s.ReleasesOf()
	looked := false
	for step := range s.AllSteps() {
		u := step.Upgrade
		if u == nil {
			continue
		}
		if !looked {
			looked = true
			if from, err := plane.FindRelease(release.Wanted{Kubernetes: s.Plane.Release, Etcd: s.Plane.Etcd}, ""); err == nil {
				now[component.Etcd], _ = skew.Parse(from.Etcd)
			} else {
				errs = append(errs, err)
			}
		}
		to, err := plane.FindRelease(wanted(u), "")
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w", w.File, step.Line, step.Name, err))
			continue
		}
		resolved := *u
		resolved.Etcd = to.Etcd
		for _, v := range s.UnsupportedSkew(&resolved, now) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: upgrade: %v; %s", w.File, step.Line, step.Name, v, scenario.AllowSkew))
		}
		now = changeOf(s, u, to).After(now)
	}
	return errors.Join(errs...)
}

// Do takes the parts to the other release, one after another. When one does not come back
// the step fails: the others stay as they are.
func (x Upgrade) Do(ctx context.Context, s *Session) error {
	to, err := plane.FindRelease(wanted(x.Spec), "")
	if err != nil {
		return err
	}
	r := roll{Upgrade: x, Session: s, to: to}
	now, err := r.currentReleases(ctx)
	if err != nil {
		return err
	}
	change := changeOf(s.Workload.Scenario, x.Spec, to)
	for i, part := range change.Order(now) {
		if i > 0 {
			if err := clock.Sleep(ctx, time.Duration(x.Spec.Hold)); err != nil {
				return err
			}
		}
		if err := r.changePart(ctx, part, change.Lowers(now)); err != nil {
			return err
		}
	}
	return nil
}

// roll is an upgrade under way.
type roll struct {
	Upgrade
	*Session
	to   release.Plane
	done []string // processes that have the release
}

// currentReleases asks the API servers and etcd for their releases: by them an upgrade is
// told from a downgrade.
func (r *roll) currentReleases(ctx context.Context) (skew.State, error) {
	out := skew.State{}
	for _, c := range r.Plane.Components() {
		of, _ := component.Of(c.Name)
		if of != component.Etcd && of != component.APIServer {
			continue
		}
		said, err := c.ReportedRelease(ctx)
		if err != nil {
			return nil, fmt.Errorf("release of %s: %w", c.Name, err)
		}
		out[of], _ = skew.Parse(said)
	}
	for _, part := range skew.Parts()[2:] {
		out[part] = out[component.APIServer]
	}
	return out, nil
}

// changePart takes all processes of a part to the release.
func (r *roll) changePart(ctx context.Context, part string, lowers bool) error {
	switch {
	case part == skew.Nodes && r.Fleet == nil:
		return errors.New("nodes: the run has no fleet of its own")
	case part == skew.Nodes:
		return r.track(skew.Nodes, "", r.to.Kubernetes, func() error {
			return r.Fleet.RollKubelets(ctx, r.to.Kubernetes, r.Spec.Batch, func(done, of int) error {
				r.Progress.Waiting(r.Step, done, of)
				return clock.Sleep(ctx, time.Duration(r.Spec.Between))
			})
		})
	case part == component.Etcd && lowers:
		if err := plane.AllowEtcdDowngrade(ctx, r.Plane, r.to.Etcd); err != nil {
			return err
		}
	}
	release := r.to.Kubernetes
	if part == component.Etcd {
		release = r.to.Etcd
	}
	return plane.ForEachProcess(ctx, r.Plane, part, time.Duration(r.Spec.Between), func(c plane.Component) error {
		from, err := c.ReportedRelease(ctx)
		if err != nil {
			from = "" // it is down
		}
		return r.track(c.Name, from, release, func() error { return c.Replace(ctx, r.to) })
	})
}

// track takes one process, or the nodes, to the release, with its begin and end in the
// records.
func (r *roll) track(name, from, to string, do func() error) error {
	r.Progress.Waiting(r.Step, 0, 0)
	r.Progress.WaitingFor(r.Step, name+" as "+to)
	r.Journal.PartBegan(r.Step, name, from, to)
	err := do()
	r.Journal.PartEnded(r.Step, name, from, to, err)
	if err == nil {
		r.done = append(r.done, name)
		return nil
	}
	before := "nothing had been upgraded before"
	if len(r.done) > 0 {
		before = "upgraded before: " + strings.Join(r.done, ", ")
	}
	return fmt.Errorf("%s did not come back as %s (%s): %w", name, to, before, err)
}
