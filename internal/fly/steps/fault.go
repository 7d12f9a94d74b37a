package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// Fault breaks something on purpose.
type Fault struct {
	Step string
	Spec *scenario.Disturbance
}

// Do breaks it. It ends at once, unless the fault is held.
func (x Fault) Do(ctx context.Context, s *Session) error {
	var members []string
	if x.Spec.Cluster != "" {
		var err error
		if members, err = s.Workload.Scenario.MembersOf(x.Spec.Cluster); err != nil {
			return err
		}
	}
	return s.Injected.beginFault(ctx, x.Spec, func(ctx context.Context) (func(context.Context) error, error) {
		mend, err := x.injectFault(ctx, s)
		if err != nil {
			return nil, err
		}
		journalled := x.Spec.Component != "" // when it hits
		if !journalled {
			s.Journal.FaultBegan(x.Step, x.Spec.Action, members)
		}
		return func(ctx context.Context) error {
			err := mend(ctx)
			if !journalled {
				s.Journal.FaultEnded(x.Step, x.Spec.Action, members)
			}
			if err != nil && !x.Spec.Hold { // else the step ends with it
				s.Journal.Unmet("step "+x.Step, record.NotDone, err.Error())
			}
			return err
		}, nil
	})
}

// injectFault does what the step says, and returns what undoes it.
func (x Fault) injectFault(ctx context.Context, s *Session) (mend func(context.Context) error, err error) {
	d := x.Spec
	switch {
	case d.Component != "":
		return s.injectComponent(ctx, d)
	case d.Client != "":
		return s.Injected.hold(d, d.Client, func() (func(context.Context) error, error) { return s.injectClient(d) })
	case d.Cluster != "":
		return s.injectMembers(ctx, d)
	case s.Fleet == nil:
		return nil, fmt.Errorf("%s of nodes or pods: no fleet: %w", d.Action, plane.ErrNoFault)
	}
	undo, err := s.Fleet.Disturb(ctx, *d)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return undo() }, nil
}

// Inject disturbs a plane that windtunnel has started, or its fleet, which may be
// nil, outside of a run. What it returns takes the fault back.
func Inject(ctx context.Context, p *plane.Plane, f *fleet.Fleet, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	return Fault{Spec: d}.injectFault(ctx, &Session{Plane: p, Fleet: f, Own: true, Injected: &Injected{}})
}

func (s *Session) injectComponent(ctx context.Context, d *scenario.Disturbance) (func(context.Context) error, error) {
	if d.Action == "roll" {
		return func(context.Context) error { return nil }, plane.Roll(ctx, s.Plane, d.Component, time.Duration(d.Between))
	}
	c, err := s.Plane.Find(ctx, d.Component)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", d.Action, d.Component, err)
	}
	return s.Injected.hold(d, c.Name, func() (func(context.Context) error, error) { return c.Inject(ctx, d) })
}

func (s *Session) injectClient(d *scenario.Disturbance) (func(context.Context) error, error) {
	between := s.Plane.Proxy(d.Client)
	if between == nil {
		return nil, fmt.Errorf("%s %s: its connections cannot be led through a proxy: %w", d.Action, d.Client, plane.ErrNoFault)
	}
	if d.Action == "cut" {
		err := between.Refuse(true)
		between.Cut()
		return func(context.Context) error { return between.Refuse(false) }, err
	}
	emulate := func(change func(*proxy.Link)) error { return s.changeLink(between, change) }
	if d.Action == "slow" {
		if !s.Own {
			return nil, fmt.Errorf("slow %s: the proxy sees single calls only where windtunnel made the certificates: %w", d.Client, plane.ErrNoFault)
		}
		return func(context.Context) error { return emulate(func(l *proxy.Link) { l.AnswerFactor = 0 }) },
			emulate(func(l *proxy.Link) { l.AnswerFactor = d.Factor })
	}
	return func(context.Context) error { return emulate(func(l *proxy.Link) { l.RoundTrip = 0 }) },
		emulate(func(l *proxy.Link) { l.RoundTrip = time.Duration(d.RoundTrip) })
}

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
		mends[i], err = s.Injected.hold(d, m.Name, func() (func(context.Context) error, error) { return m.Inject(ctx, s.Plane, d) })
		return err
	})
	if err := ofMembers(members, errs); err != nil {
		_ = mend(context.WithoutCancel(ctx)) // of those that were broken
		return nil, err
	}
	return mend, nil
}

// changeLink changes a link: it may be longer and its answers slower at the same time.
func (s *Session) changeLink(between *proxy.Proxy, change func(*proxy.Link)) error {
	s.Injected.mu.Lock()
	defer s.Injected.mu.Unlock()
	link := between.Link()
	change(&link)
	return between.Emulate(link)
}

// InterposeProxies puts proxies before the clients that steps disturb on a plane
// that others started: those of one that we start are there from the start.
func InterposeProxies(w *workload.Workload, p *plane.Plane) error {
	for _, name := range w.DisturbedClients() {
		if _, err := p.AddProxy(name); err != nil {
			return fmt.Errorf("%w: %w", plane.ErrNoFault, err)
		}
	}
	return nil
}
