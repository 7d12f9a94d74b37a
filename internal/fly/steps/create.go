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
	p.Pace, p.Retry = pace, workload.RetryOf(c.Spec.Retry)
	return planned{Plan: p, after: s.newSettling(o)}, nil
}

// pacedBatch returns all of the step's objects, and when each is due.
func (c Create) pacedBatch(w *workload.Workload, o *Objects) (batch, pacing) {
	b := o.batchOfAll().withPauses()
	if c.Spec.PerObject {
		b = b.perObject()
	}
	return b, pacingOf(w, c.Step, b, c.Spec.Pace)
}

// withPauses is the same objects, whose units are indices, due later by the pauses of their
// create step between indices and between namespaces.
func (b batch) withPauses() batch {
	x, r, unit := b.objects.create, scenario.Range{}, b.unit
	if x.Namespaces != nil {
		r = *x.Namespaces
	}
	if x.Pause > 0 || r.Pause > 0 {
		b.shift = func(i int) time.Duration {
			n := unit(i)
			return time.Duration(n)*time.Duration(x.Pause) + time.Duration(n/max(1, r.Each))*time.Duration(r.Pause)
		}
	}
	return b
}
