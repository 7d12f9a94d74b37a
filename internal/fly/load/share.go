package load

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// checkShare says what is wrong with a plan's share.
func (p *Plan) checkShare() error {
	s := p.Share
	switch n := p.parallelCalls(); {
	case !s.Valid():
		return fmt.Errorf("%w: share %d of %d", ErrPlan, s.Index, s.Of)
	case n > 0 && s.Portion(n) == 0:
		return fmt.Errorf("%w: %s at a time: fewer than the %s that share them", ErrPlan, unit.Count(n, "calls"), unit.Count(s.Of, "workers"))
	}
	return nil
}

// callNumber returns what the records of a share say of which call a call is for: 0
// where there are no other workers, and it goes without saying.
func (f *flight) callNumber(index int) uint32 {
	if !f.plan.Share.Split() {
		return 0
	}
	return uint32(index) + 1
}

// leaveOut takes note of a call that Build has left out, where somebody may miss it.
func (s *slot) leaveOut() {
	f := s.flight
	if n := f.callNumber(s.index); n > 0 {
		s.g.options.Records.LeftOut(record.LeftOut{Op: f.ops[min(max(s.req.Op, 0), len(f.ops)-1)], Number: n})
	}
}

// hasMore tells whether another call of the same number follows an answer.
func (s *slot) hasMore(r *wire.Response) bool {
	if r.Outcome() != record.OK {
		return false
	}
	if s.req.Pages {
		return s.scan.nextToken() != ""
	}
	return s.flight.plan.Then != nil && !s.req.Discard
}

// startTime is when a plan's time begins.
func (p *Plan) startTime(now clock.Time) clock.Time {
	if p.Begin > 0 {
		return p.Begin
	}
	return now
}
