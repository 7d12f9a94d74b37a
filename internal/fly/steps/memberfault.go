package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/scenario"
)

// injectMembers breaks members. What it returns mends them again, all at the same time.
func (s *Session) injectMembers(ctx context.Context, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	members, err := s.membersOf(d.Cluster)
	if err != nil {
		return nil, err
	}
	mends := make([]func(context.Context) error, len(members))
	mend = func(ctx context.Context) error {
		return ofMembers(members, forEachMember(ctx, atOnce, members, func(i int, _ *Member) error {
			if mends[i] == nil {
				return nil
			}
			return mends[i](ctx)
		}))
	}
	errs := forEachMember(ctx, atOnce, members, func(i int, m *Member) (err error) {
		mends[i], err = s.injectMember(ctx, m, d)
		return err
	})
	if err := ofMembers(members, errs); err != nil {
		_ = mend(context.WithoutCancel(ctx)) // of those that were broken
		return nil, err
	}
	return mend, nil
}

// injectMember breaks one.
func (s *Session) injectMember(ctx context.Context, m *Member, d *scenario.Disturbance) (func(context.Context) error, error) {
	hollow := m.Kind == scenario.HollowMember
	switch d.Action {
	case "kill", "restart":
		if hollow {
			return stopHollow(ctx, m, d.Action)
		}
	case "slow":
		if hollow {
			return func(ctx context.Context) error { return m.Slow(ctx, 1) }, m.Slow(ctx, d.Factor)
		}
	}
	switch d.Action {
	case "kill", "pause", "restart":
		one := *d
		one.Component = m.Name
		return injectComponent(ctx, s.Plane, &one)
	case "expire":
		return m.Renew, m.Expire(ctx)
	case "rollback":
		then, err := m.Copy(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return rollBack(ctx, s.Plane, m, then) }, nil
	}
	link := m.Link()
	if link == nil {
		return nil, fmt.Errorf("%s %s: nothing is between it and its clients: %w", d.Action, m.Name, errNoFault)
	}
	switch d.Action {
	case "cut":
		err := link.Refuse(true)
		link.Cut()
		return func(context.Context) error { return link.Refuse(false) }, err
	case "stall":
		link.Stall(true)
		return func(context.Context) error { link.Stall(false); return nil }, nil
	}
	before := s.changeLink(link, func(l *proxy.Link) {
		if d.Action == "slow" {
			l.AnswerFactor = d.Factor
		} else {
			l.RoundTrip = time.Duration(d.RoundTrip)
		}
	})
	return func(context.Context) error {
		return s.changeLink(link, func(l *proxy.Link) {
			if d.Action == "slow" {
				l.AnswerFactor = 0
			} else {
				l.RoundTrip = m.RoundTrip()
			}
		})
	}, before
}

// stopHollow kills a hollow member, or restarts it.
func stopHollow(ctx context.Context, m *Member, action string) (func(context.Context) error, error) {
	if err := m.Stop(ctx); err != nil || action == "kill" {
		return m.Start, err
	}
	return func(context.Context) error { return nil }, m.Start(ctx)
}

// rollBack gives a member back the state that it had: it is down meanwhile.
func rollBack(ctx context.Context, p *plane.Plane, m *Member, then plane.MemberState) error {
	if m.Kind == scenario.HollowMember {
		return errors.Join(m.Stop(ctx), m.Restore(ctx, then), m.Start(ctx))
	}
	c, ok := p.Component(m.Name)
	if !ok {
		return fmt.Errorf("rollback %s: %w", m.Name, errNoFault)
	}
	if err := c.Kill(); err != nil {
		return err
	}
	if err := m.Restore(ctx, then); err != nil {
		return err
	}
	return c.Restart(ctx)
}

// LinksMember tells whether a step breaks the link of a member, which is there for
// that.
func (w *Workload) LinksMember(name string) bool {
	for s := range w.Scenario.AllSteps() {
		if f := s.Fault; f != nil && f.Cluster != "" && slices.Contains([]string{"delay", "slow", "cut", "stall"}, f.Action) {
			if names, err := w.Scenario.MembersOf(f.Cluster); err == nil && slices.Contains(names, name) {
				return true
			}
		}
	}
	return false
}

// SlowsMembers tells whether a step makes single answers of members slower.
func (w *Workload) SlowsMembers() bool {
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Cluster != "" && s.Fault.Action == "slow" {
			return true
		}
	}
	return false
}
