package load

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Share is the part of a plan's calls that one of several workers sends: those
// whose number leaves Index when it is divided by Of. When they are due, which
// verb they have and what they are about is not the share's affair: the shares of
// all workers together are the plan. The zero value is all calls.
type Share struct{ Index, Of int }

// stride is how far the numbers of two calls of the share lie apart.
func (s Share) stride() int { return max(1, s.Of) }

// split tells whether there are others who have the rest.
func (s Share) split() bool { return s.Of > 0 }

// Count returns how many of a plan's first n calls are the share's.
func (s Share) Count(n int) int {
	return max(0, (n-s.Index+s.stride()-1)/s.stride())
}

// Portion returns the share of n things that are there all the time, such as the
// calls of a closed pool: as many as everybody's, and what is left over goes to
// the lowest indices.
func (s Share) Portion(n int) int {
	out := n / s.stride()
	if s.Index < n%s.stride() {
		out++
	}
	return out
}

// check says what is wrong with a share of a plan.
func (s Share) check(p *Plan) error {
	switch n := p.parallel(); {
	case s.Index < 0 || s.Of < 0 || s.Index > 0 && s.Index >= s.Of:
		return fmt.Errorf("%w: share %d of %d", ErrPlan, s.Index, s.Of)
	case n > 0 && s.Portion(n) == 0:
		return fmt.Errorf("%w: %d calls at a time are fewer than the %d workers that share them", ErrPlan, n, s.Of)
	}
	return nil
}

// number returns what the records of a share say of which call a call is for: 0
// where there are no other workers, and it goes without saying.
func (f *flight) number(index int) uint32 {
	if !f.plan.Share.split() {
		return 0
	}
	return uint32(index) + 1
}

// leaveOut takes note of a call that Build has left out, where somebody may miss it.
func (s *slot) leaveOut() {
	f := s.flight
	if n := f.number(s.index); n > 0 {
		s.g.options.Records.LeftOut(record.LeftOut{Op: f.ops[min(max(s.req.Op, 0), len(f.ops)-1)], Number: n})
	}
}

// more tells whether another call of the same number follows an answer.
func (s *slot) more(r *wire.Response) bool {
	if r.Outcome() != record.OK {
		return false
	}
	if s.req.Pages {
		return s.scan.token() != ""
	}
	return s.flight.plan.Then != nil && !s.req.Discard
}

// start is when a plan's time begins.
func (p *Plan) start(now clock.Time) clock.Time {
	if p.Begin > 0 {
		return p.Begin
	}
	return now
}
