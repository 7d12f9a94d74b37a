package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/machine/network"
)

// answeredWithin is how long a worker may take to say what has arrived.
const answeredWithin = 30 * time.Second

// Answer has a worker answer at the end of a step's path.
func (w *Workers) Answer(ctx context.Context, worker int, step string) (reach network.Reach, err error) {
	_, err = w.askOne(ctx, worker, message.Answer{Step: step}, func(said json.RawMessage) error {
		if err := json.Unmarshal(said, &reach); err != nil {
			return err
		}
		return reach.Check()
	})
	return reach, err
}

// Answered ends that and returns what arrived there, by the run's clock. It does so too
// where the run is to end.
func (w *Workers) Answered(ctx context.Context, worker int, step string) (all []steps.Arrived, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answeredWithin)
	defer cancel()
	o, err := w.askOne(ctx, worker, message.Answer{Step: step, End: true}, func(json.RawMessage) error { return nil })
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(o.Ended, &all); err != nil {
		return nil, fmt.Errorf("worker %d: what arrived at it: %w", worker, err)
	}
	for i := range all {
		all[i].At = all[i].At.Add(o.Clock.Offset)
	}
	return all, nil
}

// askOne has one worker do a part, and returns what became of it.
func (w *Workers) askOne(ctx context.Context, worker int, part message.Answer, check func(said json.RawMessage) error) (protocol.Outcome, error) {
	one := protocol.Group{From: worker, Below: worker + 1}
	outcomes, _, err := w.leader.Do(ctx, one, message.Order{Answer: &part}, func(_ int, said json.RawMessage) error { return check(said) })
	switch {
	case err != nil:
		return protocol.Outcome{}, err
	case len(outcomes) != 1:
		return protocol.Outcome{}, fmt.Errorf("worker %d is not there: %w", worker, message.ErrWorkers)
	case outcomes[0].Err != nil:
		return protocol.Outcome{}, fmt.Errorf("worker %d: %w", worker, outcomes[0].Err)
	}
	return outcomes[0], nil
}
