package load

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// maxPages is more than a list of all that etcd holds has.
const maxPages = 10_000

var errEndless = errors.New("the list does not end")

// handleResponse is the callback of a call's end: it records the call and sends what
// follows it.
func (s *slot) handleResponse(r *wire.Response) {
	if s.informing != nil {
		s.endList(r)
		return
	}
	outcome := r.Outcome()
	if outcome != record.OK {
		s.retryOrGiveUp(outcome, r)
		return
	}
	result := s.recordCall(outcome, r, false)
	more, err := s.nextRequest(result)
	result.Last = !more && err == nil
	s.reportResult(result)
	if result.Last {
		s.endCall()
		return
	}
	s.chain++
	s.due, s.at, s.throttled = r.Done, 0, 0
	s.flight.chargeFollower(s.index)
	if err != nil {
		s.countUnbuilt(err)
		return
	}
	s.postRequest()
}

// retryOrGiveUp sends a call again later, or gives it up.
func (s *slot) retryOrGiveUp(outcome record.Outcome, r *wire.Response) {
	next, later := s.retryCall(outcome, r)
	result := s.recordCall(outcome, r, later)
	result.Last = !later
	s.reportResult(result)
	if later {
		s.waitForRetry(next)
	} else {
		s.endCall()
	}
}

// nextRequest makes the slot's next request after an answer: that of the next page,
// or the one that Then wants. False when there is none.
func (s *slot) nextRequest(result Result) (bool, error) {
	if s.req.Pages {
		before := s.token
		s.token = s.scan.nextToken()
		s.req.Path, s.attempt = s.scan.path, 0
		if s.token != "" && (s.token == before || s.chain >= maxPages) {
			return false, fmt.Errorf("%w: page %d of %s is not the last", errEndless, s.chain+1, s.scan.path)
		}
		return s.token != "", nil
	}
	then := s.flight.plan.Then
	if then == nil {
		return false, nil
	}
	s.clearRequest()
	s.req.Op = result.Op
	more, err := then(result, &s.req)
	if err == nil && more {
		err = s.checkRequest()
	}
	return more && err == nil, err
}

// recordCall records a call, which may be sent again, and returns what there is to
// tell of it.
func (s *slot) recordCall(o record.Outcome, r *wire.Response, again bool) Result {
	f := s.flight
	c := r.Call(f.ops[s.req.Op], s.due)
	c.Outcome, c.Attempt, c.Again = o, uint8(s.attempt), again
	c.Reached = s.mayHaveReached(r.Code)
	if c.Number = f.callNumber(s.index); c.Number > 0 { // of a worker: nobody else is asked whether more follows
		c.More = s.hasMore(r)
	}
	if s.posted > 0 { // what its connection takes to be there is not lateness of the generator
		c.Sent = min(c.Sent, s.posted)
	}
	if c.Throttled = s.throttled; f.closed {
		c.Due, c.Throttled = c.Sent, 0
	}
	s.g.options.Records.Call(c)
	s.g.stats.countEnded(c)
	f.mu.Lock()
	f.figures.addCall(&c, r.Sent > 0)
	f.mu.Unlock()
	result := Result{Index: s.index, Op: s.req.Op, Attempt: s.attempt, Chain: s.chain, Outcome: o, Reached: c.Reached, Response: r}
	if o != record.OK {
		if e := s.g.failures.addFailure(s, &c, result); e != nil {
			s.g.options.Records.Event(*e)
			if s.g.options.Failed != nil {
				s.g.options.Failed(*e)
			}
		}
	}
	return result
}

// mayHaveReached tells whether an answer says that an attempt before, of which nobody
// knows, had been done: the object is there, or is gone. After a refusal it says
// no such thing: the object is another's.
func (s *slot) mayHaveReached(code int) bool {
	verb := s.flight.plan.Ops[s.req.Op].Verb
	return s.unsure && (verb == "create" && code == http.StatusConflict || verb == "delete" && code == http.StatusNotFound)
}

func (s *slot) reportResult(r Result) {
	if done := s.flight.plan.Done; done != nil {
		done(r)
	}
}

// endCall ends the i-th call, with all that followed it.
func (s *slot) endCall() {
	f := s.flight
	s.g.releaseSlot(s)
	f.endCall()
}

func (f *flight) endCall() {
	f.mu.Lock()
	f.open--
	if f.pool > 0 {
		f.mu.Unlock()
		f.sendDue()
		f.mu.Lock()
	}
	last := f.open == 0 && f.wakeTimeLocked() == distant
	f.mu.Unlock()
	if last {
		f.alarm.wakeUp()
	}
}

// figures are a flight's rates.
type figures struct{ offered, achieved interval }

// addCall counts a call; left tells whether it left at all.
func (f *figures) addCall(c *record.Call, left bool) {
	if left && c.Attempt == 0 {
		f.offered.addTime(c.Sent)
	}
	if c.Outcome == record.OK {
		f.achieved.addTime(c.Done)
	}
}

// interval counts moments.
type interval struct {
	n           int
	first, last clock.Time
}

func (s *interval) addTime(t clock.Time) {
	if s.n == 0 {
		s.first, s.last = t, t
	}
	s.n++
	s.first, s.last = min(s.first, t), max(s.last, t)
}

// String is the count and the rate: n-1 moments in the time from the first of n
// to the last.
func (s *interval) rateDetail() record.Detail {
	rate := 0.0
	if d := s.last.Sub(s.first); d > 0 {
		rate = float64(s.n-1) / d.Seconds()
	}
	return record.Detail{Count: s.n, Rate: rate}
}

// tellFailures writes how often calls of the step have failed, each way by itself.
func (f *flight) tellFailures() {
	for _, e := range f.g.failures.eventsSince(f.g.options.Clock.Now(), f.plan.stepName()) {
		f.g.options.Records.Event(e)
	}
}

// tellRates writes what became of the rate that was asked for.
func (f *flight) tellRates() {
	now, step := f.g.options.Clock.Now(), f.plan.stepName()
	f.g.writeEvent(now, record.EventLoadOffered, step, f.figures.offered.rateDetail())
	f.g.writeEvent(now, record.EventLoadAchieved, step, f.figures.achieved.rateDetail())
}
