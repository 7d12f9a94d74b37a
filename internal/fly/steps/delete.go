package steps

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/scenario"
)

// Delete deletes what a create step made.
type Delete struct {
	Step string
	Spec *scenario.Delete
}

// Do deletes it; of a step that was not reached, or whose objects were all
// refused, there is nothing.
func (d Delete) Do(ctx context.Context, s *Session) error { return s.sendPlanned(ctx, d) }

func (d Delete) paceOf() scenario.Pace { return d.Spec.Pace }

func (d Delete) planCalls(_ context.Context, s *Session) (planned, error) {
	o := s.Created.find(d.Spec.Step)
	if o == nil {
		return planned{}, nil
	}
	b := o.batchOfAll()
	p, err := b.planDeletion(d.Step, d.Spec.Propagation, time.Duration(d.Spec.Timeout))
	if err != nil {
		return planned{}, err
	}
	p.Pace = pacingOf(s.Workload, d.Step, b, d.Spec.Pace)
	return planned{Plan: p, after: func(_ context.Context, sent error) error {
		if o.Empty() {
			o.SetUpTo(0)
		}
		return sent
	}}, nil
}
