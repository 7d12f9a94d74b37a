package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/scenario"
)

// settleEvery is how often a plane that settles is looked at: long enough for a
// mean of its CPU, which the kernel counts in steps of 10 ms.
const settleEvery = 2 * time.Second

// Settle waits until the plane is as it was before the first step.
type Settle struct {
	Step string
	Spec *scenario.Settle
}

// Do waits. What waiting does not help against it writes down, and goes on.
func (x Settle) Do(ctx context.Context, s *Session) error {
	late := fmt.Errorf("%v have passed", x.Spec.Within)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Spec.Within), late)
	defer cancel()
	i := inspect.Start(ctx, s.Inspection())
	if err := clock.Sleep(ctx, quietFor); err != nil {
		return err
	}
	found, err := preflight.AwaitClean(ctx, settleEvery, func(ctx context.Context) []preflight.Finding {
		now := i.State(ctx)
		i.AddTerminating(ctx, &now, s.baseline.stored, s.Created.resourceNames())
		found := i.Findings(now, s.baseline.state, preflight.Host) // others on the machine do not keep the plane from resting
		if preflight.Lasting(found) {
			i.AddProbeWrites(ctx, &now)
			found = i.Findings(now, s.baseline.state, preflight.Host)
		}
		s.Progress.WaitingFor(x.Step, preflight.Sentence(found))
		i.RestartCPU() // the CPU of this look is not that of the load before it
		return found
	})
	if len(found) > 0 && ctx.Err() == nil && preflight.Lasting(found) {
		for _, f := range found { // waiting does not help: what follows begins so
			s.Journal.Dirty(f)
		}
		return nil
	}
	return err
}

// quietFor is over how long CPU and retries are measured before the first look.
const quietFor = 2 * time.Second

// baseline is what the plane was like before the first step.
type baseline struct {
	state  preflight.State
	stored map[string]float64 // objects by resource
}

// measureBaseline measures what the plane is like when there is no load yet; only
// scenarios that settle want to know.
func (s *Session) measureBaseline(ctx context.Context) error {
	for step := range s.Workload.Scenario.AllSteps() {
		if step.Settle != nil {
			var err error
			s.baseline, err = s.newBaseline(ctx)
			return err
		}
	}
	return nil
}

// baselineLooks is how often a plane is looked at to know what it is like, while
// a component could not be read often enough to know a rate.
const baselineLooks = 3

func (s *Session) newBaseline(ctx context.Context) (b baseline, err error) {
	i := inspect.Start(ctx, s.Inspection())
	for range baselineLooks {
		if err := clock.Sleep(ctx, quietFor); err != nil {
			return b, err
		}
		b.state = i.State(ctx)
		if len(b.state.Unrated)+len(b.state.Unread) == 0 {
			break
		}
	}
	b.stored = i.Stored()
	i.AddProbeWrites(ctx, &b.state)
	for _, text := range b.state.Unread { // a plane that settles is not compared with it
		s.Warn("what the plane is like without load is not wholly known: " + text)
	}
	return b, nil
}
