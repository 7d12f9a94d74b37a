package flight

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/scenario"
)

// coolEvery is how often a cooling plane is looked at: long enough for a
// mean of its CPU, which the kernel counts in steps of 10 ms.
const coolEvery = 2 * time.Second

// cool waits until the plane is as it was before the first step.
func (r *run) cool(ctx context.Context, x *scenario.Cool) error {
	late := fmt.Errorf("%v have passed", x.Within)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Within), late)
	defer cancel()
	l := inspect.Start(ctx, r.inspection())
	if err := clock.Sleep(ctx, quietFor); err != nil {
		return err
	}
	faults, err := preflight.Clean(ctx, coolEvery, func(ctx context.Context) []preflight.Fault {
		s := l.State(ctx)
		l.AddTerminating(ctx, &s, r.stored, r.touched())
		faults := l.Findings(s, r.first, preflight.Host) // others on the machine do not keep the plane from resting
		if preflight.Lasting(faults) {
			l.AddProbeWrites(ctx, &s)
			faults = l.Findings(s, r.first, preflight.Host)
		}
		l.RestartCPU() // the CPU of this look is not that of the load before it
		return faults
	})
	if len(faults) > 0 && ctx.Err() == nil && preflight.Lasting(faults) {
		for _, f := range faults { // waiting does not help: what follows begins so
			r.journal().Dirty(f)
		}
		return nil
	}
	return err
}

// touched are the resources of which the run makes objects.
func (r *run) touched() map[string]bool {
	out := map[string]bool{"namespaces": true, "pods": true}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.made {
		for _, k := range m.kinds {
			out[k.resource.Name] = true
		}
	}
	return out
}

// inspection says what the run looks at on its plane, and with what.
func (r *run) inspection() inspect.Options {
	return inspect.Options{
		Clock: r.clock, Plane: r.plane, Own: r.own(), Client: r.watcher, Installed: r.subjects.installer, Tolerate: r.scenario.Gate.Tolerate,
	}
}

// quietFor is over how long CPU and retries are measured before the first look.
const quietFor = 2 * time.Second

// levels measures what the plane is like when there is no load yet; only
// scenarios that cool want to know.
func (r *run) levels(ctx context.Context) error {
	for s := range r.scenario.AllSteps() {
		if s.Cool != nil {
			return r.level(ctx)
		}
	}
	return nil
}

// levelLooks is how often a plane is looked at to know its levels, while a
// component could not be read often enough to know a rate.
const levelLooks = 3

func (r *run) level(ctx context.Context) error {
	l := inspect.Start(ctx, r.inspection())
	for range levelLooks {
		if err := clock.Sleep(ctx, quietFor); err != nil {
			return err
		}
		r.first = l.State(ctx)
		if len(r.first.Unrated)+len(r.first.Unread) == 0 {
			break
		}
	}
	r.stored = l.Stored()
	l.AddProbeWrites(ctx, &r.first)
	for _, text := range r.first.Unread { // a cooling plane is not compared with it
		r.warn("what the plane is like without load is not wholly known: " + text)
	}
	return nil
}
