package steps

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/scenario"
)

// Scale brings what a create step made to another number: it makes the indices
// that are missing, or deletes the highest ones.
type Scale struct {
	Step string
	Spec *scenario.Scale
}

// Do scales; of a step that was not reached there is nothing.
func (x Scale) Do(ctx context.Context, s *Session) error { return s.sendPlanned(ctx, x) }

func (x Scale) paceOf() scenario.Pace { return x.Spec.Pace }

func (x Scale) planCalls(_ context.Context, s *Session) (planned, error) {
	o, err := s.Created.findUsable(x.Spec.Step)
	if o == nil || err != nil {
		return planned{}, err
	}
	from, to, timeout := o.UpTo(), max(x.Spec.To, x.Spec.PerNamespace), time.Duration(x.Spec.Timeout)
	var b batch
	var p load.Plan
	if to >= from {
		o.SetUpTo(to)
		b = o.batchBetween(o.layout, from, to)
		p, err = b.planCreation(x.Step, timeout)
	} else {
		b = o.batchBetween(o.layout, to, from).inReverse()
		p, err = b.planDeletion(x.Step, x.Spec.Propagation, timeout)
	}
	if err != nil {
		return planned{}, err
	}
	p.Pace = pacingOf(s.Workload, x.Step, b, x.Spec.Pace)
	settle := s.newSettling(o)
	return planned{Plan: p, after: func(ctx context.Context, sent error) error {
		sent = settle(ctx, sent)
		o.SetUpTo(to)
		return sent
	}}, nil
}
