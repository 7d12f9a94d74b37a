package worker

import (
	"context"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/machine/network"
)

// answer is an answering end that a worker has begun, or is to end.
type answer struct {
	sender *sender
	message.Answer
	reach network.Reach
}

// answerPath begins the answering end of a step's path, or gets ready to end it.
func (s *sender) answerPath(ctx context.Context, o message.Answer) (protocol.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.answering[o.Step]
	switch {
	case o.End && has == nil:
		return nil, fmt.Errorf("step %q: %w: nothing answers here", o.Step, message.ErrWorkers)
	case o.End:
		return answer{sender: s, Answer: o}, nil
	case has != nil:
		return nil, fmt.Errorf("step %q: %w: it is answered already", o.Step, message.ErrWorkers)
	}
	host, err := ownAddress(s.leader)
	if err != nil {
		return nil, err
	}
	begun, err := beginAnswer(ctx, s.session, o.Step, host)
	if err != nil {
		return nil, err
	}
	s.answering[o.Step] = begun
	return answer{s, o, begun.reach()}, nil
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
		return nil, fmt.Errorf("step %q: %w: nothing answers here", a.Step, message.ErrWorkers)
	}
	return has.close(), nil
}

// endAnswers ends what nobody has ended.
func (s *sender) endAnswers() {
	for _, one := range s.answering {
		one.close()
	}
}
