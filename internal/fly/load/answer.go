package load

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// mostPages is more than a list of all that etcd holds has.
const mostPages = 10_000

var errEndless = errors.New("the list does not end")

// done is the callback of a call's end: it records the call and sends what
// follows it.
func (s *slot) done(r *wire.Response) {
	outcome := r.Outcome()
	if outcome != record.OK {
		s.failed(outcome, r)
		return
	}
	result := s.ended(outcome, r, false)
	more, err := s.follow(result)
	result.Last = !more && err == nil
	s.tell(result)
	if result.Last {
		s.over()
		return
	}
	s.chain++
	s.due = r.Done
	if err != nil {
		s.spoiled(err)
		return
	}
	s.post()
}

// failed sends a call again later, or gives it up.
func (s *slot) failed(outcome record.Outcome, r *wire.Response) {
	next, later := s.again(outcome, r)
	result := s.ended(outcome, r, later)
	result.Last = !later
	s.tell(result)
	if later {
		s.wait(next)
	} else {
		s.over()
	}
}

// follow makes the slot's next request after an answer: that of the next page,
// or the one that Then wants. False when there is none.
func (s *slot) follow(result Result) (bool, error) {
	if s.req.Pages {
		before := s.token
		s.token = s.scan.token()
		s.req.Path, s.attempt = s.scan.path, 0
		if s.token != "" && (s.token == before || s.chain >= mostPages) {
			return false, fmt.Errorf("%w: page %d of %s is not the last", errEndless, s.chain+1, s.scan.path)
		}
		return s.token != "", nil
	}
	then := s.flight.plan.Then
	if then == nil {
		return false, nil
	}
	s.clear()
	s.req.Op = result.Op
	more, err := then(result, &s.req)
	if err == nil && more {
		err = s.check()
	}
	return more && err == nil, err
}

// ended records a call, which may be sent again, and returns what there is to
// tell of it.
func (s *slot) ended(o record.Outcome, r *wire.Response, again bool) Result {
	f := s.flight
	c := r.Call(f.ops[s.req.Op], s.due)
	c.Outcome, c.Attempt, c.Again = o, uint8(s.attempt), again
	c.Reached = s.reached(r.Code)
	if c.Number = f.number(s.index); c.Number > 0 { // of a worker: nobody else is asked whether more follows
		c.More = s.more(r)
	}
	if f.closed {
		c.Due = c.Sent
	}
	s.g.options.Records.Call(c)
	s.g.stats.ended(c)
	f.mu.Lock()
	f.figures.add(&c, r.Sent > 0)
	f.mu.Unlock()
	result := Result{Index: s.index, Op: s.req.Op, Attempt: s.attempt, Chain: s.chain, Outcome: o, Reached: c.Reached, Response: r}
	if o != record.OK {
		if e := s.g.failures.add(s, &c, result); e != nil {
			s.g.options.Records.Event(*e)
			if s.g.options.Failed != nil {
				s.g.options.Failed(*e)
			}
		}
	}
	return result
}

// reached tells whether an answer says that an attempt before, of which nobody
// knows, had been done: the object is there, or is gone. After a refusal it says
// no such thing: the object is another's.
func (s *slot) reached(code int) bool {
	verb := s.flight.plan.Ops[s.req.Op].Verb
	return s.unsure && (verb == "create" && code == http.StatusConflict || verb == "delete" && code == http.StatusNotFound)
}

func (s *slot) tell(r Result) {
	if done := s.flight.plan.Done; done != nil {
		done(r)
	}
}

// over ends the i-th call, with all that followed it.
func (s *slot) over() {
	f := s.flight
	s.g.release(s)
	f.over()
}

func (f *flight) over() {
	f.mu.Lock()
	f.open--
	if f.pool > 0 {
		f.mu.Unlock()
		f.drive()
		f.mu.Lock()
	}
	last := f.open == 0 && f.awaits() == distant
	f.mu.Unlock()
	if last {
		f.alarm.wake()
	}
}

// figures are a flight's rates.
type figures struct{ offered, achieved stretch }

// add counts a call; left tells whether it left at all.
func (f *figures) add(c *record.Call, left bool) {
	if left && c.Attempt == 0 {
		f.offered.add(c.Sent)
	}
	if c.Outcome == record.OK {
		f.achieved.add(c.Done)
	}
}

// stretch counts moments.
type stretch struct {
	n           int
	first, last clock.Time
}

func (s *stretch) add(t clock.Time) {
	if s.n == 0 {
		s.first, s.last = t, t
	}
	s.n++
	s.first, s.last = min(s.first, t), max(s.last, t)
}

// String is the count and the rate: n-1 moments in the time from the first of n
// to the last.
func (s *stretch) detail() record.Detail {
	rate := 0.0
	if d := s.last.Sub(s.first); d > 0 {
		rate = float64(s.n-1) / d.Seconds()
	}
	return record.Detail{Count: s.n, Rate: rate}
}

// tellFailures writes how often calls of the step have failed, each way by itself.
func (f *flight) tellFailures() {
	for _, e := range f.g.failures.since(f.g.options.Clock.Now(), f.plan.step()) {
		f.g.options.Records.Event(e)
	}
}

// tellRates writes what became of the rate that was asked for.
func (f *flight) tellRates() {
	now, step := f.g.options.Clock.Now(), f.plan.step()
	f.g.tell(now, record.EventLoadOffered, step, f.figures.offered.detail())
	f.g.tell(now, record.EventLoadAchieved, step, f.figures.achieved.detail())
}
