package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/machine/network"
)

// answerOrder has a worker be the answering end of a step's path, or ends that.
type answerOrder struct {
	Step string `json:"step"`
	End  bool   `json:"end,omitempty"`
}

// answeredWithin is how long a worker may take to say what has arrived.
const answeredWithin = 30 * time.Second

// Answer has a worker answer at the end of a step's path.
func (c *workerGroup) Answer(ctx context.Context, worker int, step string) (reach network.Reach, err error) {
	_, err = c.askOne(ctx, worker, answerOrder{Step: step}, func(said json.RawMessage) error {
		if err := json.Unmarshal(said, &reach); err != nil {
			return err
		}
		return reach.Check()
	})
	return reach, err
}

// Answered ends that and returns what arrived there, by the run's clock. It does so too
// where the run is to end.
func (c *workerGroup) Answered(ctx context.Context, worker int, step string) (all []steps.Arrived, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answeredWithin)
	defer cancel()
	o, err := c.askOne(ctx, worker, answerOrder{Step: step, End: true}, func(json.RawMessage) error { return nil })
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
func (c *workerGroup) askOne(ctx context.Context, worker int, part answerOrder, check func(said json.RawMessage) error) (protocol.Outcome, error) {
	one := protocol.Group{From: worker, Below: worker + 1}
	outcomes, _, err := c.leader.Do(ctx, one, order{Answer: &part}, func(_ int, said json.RawMessage) error { return check(said) })
	switch {
	case err != nil:
		return protocol.Outcome{}, err
	case len(outcomes) != 1:
		return protocol.Outcome{}, fmt.Errorf("worker %d is not there: %w", worker, ErrWorkers)
	case outcomes[0].Err != nil:
		return protocol.Outcome{}, fmt.Errorf("worker %d: %w", worker, outcomes[0].Err)
	}
	return outcomes[0], nil
}

// answer is an answering end that a worker has begun, or is to end.
type answer struct {
	sender *sender
	answerOrder
	reach network.Reach
}

// answerPath begins the answering end of a step's path, or gets ready to end it.
func (s *sender) answerPath(ctx context.Context, o answerOrder) (protocol.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.answering[o.Step]
	switch {
	case o.End && has == nil:
		return nil, fmt.Errorf("step %q: %w: nothing answers here", o.Step, ErrWorkers)
	case o.End:
		return answer{sender: s, answerOrder: o}, nil
	case has != nil:
		return nil, fmt.Errorf("step %q: %w: it is answered already", o.Step, ErrWorkers)
	}
	host, err := ownAddress(s.leader)
	if err != nil {
		return nil, err
	}
	begun, err := s.session.Answer(ctx, o.Step, host)
	if err != nil {
		return nil, err
	}
	s.answering[o.Step] = begun
	return answer{s, o, begun.Reach()}, nil
}

// Prepared tells the leader how the end is reached.
func (a answer) Prepared() any { return a.reach }

// Send leaves an end that has begun alone; of one that is to end it returns what arrived.
func (a answer) Send(context.Context, clock.Time) (any, error) {
	if !a.End {
		return struct{}{}, nil
	}
	a.sender.mu.Lock()
	has := a.sender.answering[a.Step]
	delete(a.sender.answering, a.Step)
	a.sender.mu.Unlock()
	if has == nil {
		return nil, fmt.Errorf("step %q: %w: nothing answers here", a.Step, ErrWorkers)
	}
	return has.Close(), nil
}

// endAnswers ends what nobody has ended.
func (s *sender) endAnswers() {
	for _, one := range s.answering {
		one.Close()
	}
}
