package steps

import (
	"context"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
)

// Part says which of a run's load a plan is, so that others plan the same: all that
// it depends on besides is in the scenario and in what has become of the objects.
type Part struct {
	Step  string        `json:"step"`
	Cycle int           `json:"cycle,omitempty"` // of a churn step, from 0
	Again bool          `json:"again,omitempty"` // of a churn step: what was deleted is made again
	Found [][][2]string `json:"found,omitempty"` // by entry of a mix: namespace and name of what its labels select
}

// String names the part for people.
func (p Part) String() string {
	switch {
	case p.Again:
		return fmt.Sprintf("%s, cycle %d, making again", p.Step, p.Cycle+1)
	case p.Cycle > 0:
		return fmt.Sprintf("%s, cycle %d", p.Step, p.Cycle+1)
	}
	return p.Step
}

// Workers are the workers that share a run's load.
type Workers interface {
	// Send has the calls of a plan sent, each by the worker that it belongs to, and
	// returns when all have ended. Known is what has become of the objects of create
	// steps since the call before; what each worker saw of them is returned.
	Send(ctx context.Context, part Part, known inventory.Changes, plan load.Plan) ([]inventory.Changes, error)
}

// takeChanges takes what workers are to know of the objects before the next part.
func (s *Session) takeChanges() inventory.Changes {
	if s.Workers == nil {
		return nil
	}
	return s.Created.TakeChanges()
}

// sendCalls sends a plan's calls, or has workers send them.
func (s *Session) sendCalls(ctx context.Context, p planned) error {
	if s.Workers == nil {
		return s.Load.Run(ctx, p.Plan)
	}
	if p.part.Step == "" {
		return fmt.Errorf("step %s: %w", p.Step, workload.ErrNotShared)
	}
	seen, err := s.Workers.Send(ctx, p.part, p.known, p.Plan)
	for _, one := range seen {
		s.Created.Apply(one)
	}
	return err
}

// PlanPart plans what the leader of workers has planned: all calls of a part. The
// changes that it was told have been applied before.
func (s *Session) PlanPart(ctx context.Context, part Part) (load.Plan, error) {
	step := s.Workload.StepNamed(part.Step)
	if step == nil {
		return load.Plan{}, fmt.Errorf("step %q: %w: the scenario has none of this name", part.Step, workload.ErrNotShared)
	}
	if step.Churn != nil {
		return s.planChurn(Churn{step.Name, step.Churn}, part)
	}
	x, ok := stepOf(step, nil).(sender)
	if !ok {
		return load.Plan{}, fmt.Errorf("step %q: %w", part.Step, workload.ErrNotShared)
	}
	here := *s
	here.found = part.Found
	p, err := x.planCalls(ctx, &here)
	return p.Plan, err
}

func (s *Session) planChurn(x Churn, part Part) (load.Plan, error) {
	o := s.Created.find(x.Spec.Step) // whether enough of it was made the leader has asked before the first cycle
	if o == nil {
		return load.Plan{}, fmt.Errorf("step %q was not reached: it made nothing", x.Spec.Step)
	}
	b := x.chooseBatch(s.Workload, o, part.Cycle)
	if part.Again {
		return x.planCreation(s, b)
	}
	return x.planDeletion(s, b)
}
