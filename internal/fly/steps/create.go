package steps

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/scenario"
)

// Create makes objects.
type Create struct {
	Step string
	Spec *scenario.Create
}

// Do makes them.
func (c Create) Do(ctx context.Context, s *Session) error { return s.sendPlanned(ctx, c) }

func (c Create) paceOf() scenario.Pace { return c.Spec.Pace }

func (c Create) planCalls(ctx context.Context, s *Session) (planned, error) {
	o, err := s.newObjects(ctx, c.Step, c.Spec)
	if err != nil {
		return planned{}, err
	}
	o.SetUpTo(max(c.Spec.Count, c.Spec.PerNamespace))
	b, pace := c.pacedBatch(s.Workload, o)
	p, err := b.planCreation(c.Step, time.Duration(c.Spec.Timeout))
	if err != nil {
		return planned{}, err
	}
	p.Pace, p.Retry = pace, loadRetry(c.Spec.Retry)
	return planned{Plan: p, after: s.newSettling(o)}, nil
}

// pacedBatch returns all of the step's objects, and when each is due.
func (c Create) pacedBatch(w *workload.Workload, o *Objects) (batch, pacing) {
	indices := o.batchOfAll()
	b := indices
	if c.Spec.PerObject {
		b = b.perObject()
	}
	pace := pacingOf(w, c.Step, b, c.Spec.Pace)
	if c.Spec.Pause > 0 { // objects are due later by the pauses before them
		pace.shift = func(i int) time.Duration { return time.Duration(indices.unit(i)) * time.Duration(c.Spec.Pause) }
	}
	return b, pace
}
