package load

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
)

// flight is a plan under way. Whoever has a reason to drives it: the goroutine
// that keeps its pace, or the end of a call that makes room for another one. So
// a call that could not leave in time leaves with the answer that it waited
// for, without a change of goroutines.
type flight struct {
	g      *Generator
	plan   Plan
	ops    []record.OpID
	begin  clock.Time
	limit  clock.Time // no call is due later
	calls  int        // how many; of a closed pool that time ends, MaxInt
	pool   int        // of a closed pool or a burst: calls at once; 0: another pace
	closed bool       // a closed pool: calls are due when they are sent
	alarm  *alarm

	population *population // nil: the generator sends the calls itself

	mu           sync.Mutex
	driving      bool
	starved      bool // a call is due, and no slot is free
	stopped      bool
	next         int        // the call that is to be sent next
	nextDue      clock.Time // when
	open         int        // calls begun and not over: their retries and what follows them included
	waiting      retries
	waitingSlots []*slot    // for calls that wait, because many do
	sleeping     clock.Time // until when the pace's goroutine sleeps
	figures      figures
	bad          int // bodies that could not be built
	err          error

	watches watches
	listed  bool // among the generator's starved; guarded by its mu
}

// stall is how long a server may stall before calls wait for a connection.
const stall = 2 * time.Second

// distant is later than every moment of a run.
const distant = clock.Time(math.MaxInt64)

// maxPerDrive is how many calls one drive sends: a connection that is being read must
// be read on.
const maxPerDrive = 64

func (g *Generator) beginFlight(ctx context.Context, p Plan) (*flight, error) {
	if err := p.checkPlan(); err != nil {
		return nil, err
	}
	calls, err := p.countCalls()
	if err != nil {
		return nil, err
	}
	f := &flight{g: g, plan: p, calls: calls, next: p.Share.Index, pool: p.Share.Portion(p.parallelCalls()), limit: distant, alarm: newAlarm(g.options.Clock)}
	f.closed = f.pool > 0
	switch rate := p.shareRate(); {
	case f.closed && p.Count == 0 && p.For > 0:
		f.calls = math.MaxInt
	case math.IsInf(rate, 1) && !f.closed:
		f.pool = max(1, p.Share.Portion(g.options.Burst))
	case !math.IsInf(rate, 1) && !p.Anew && p.Clients == nil:
		g.reserveConnections(ctx, rate)
	}
	if p.Clients != nil {
		if f.population = p.Clients.opened; f.population == nil {
			f.population, err = g.openPopulation(ctx, p.Clients)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, op := range p.Ops {
		if p.Clients != nil {
			op.Clients = p.Clients.Name
		}
		if p.Anew {
			op.Connection = record.NewConnection
		}
		f.ops = append(f.ops, g.options.Records.Op(op))
	}
	f.begin = p.startTime(g.options.Clock.Now())
	if p.For > 0 {
		f.limit = f.begin.Add(p.For)
	}
	g.writeEvent(f.begin, record.EventLoadAsked, p.stepName(), p.requestedDetail(calls))
	g.stats.beginPlan(p.Share.Count(calls), p.shareRate())
	f.advanceLocked()
	return f, nil
}

// reserveConnections opens the connections that calls at such a rate need while the server
// stalls.
func (g *Generator) reserveConnections(ctx context.Context, rate float64) {
	ctx, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	g.plane.client.Reserve(ctx, int(min(rate*stall.Seconds(), float64(g.options.InFlight))))
}

// writeEvent writes an event of a step's load.
func (g *Generator) writeEvent(at clock.Time, what record.EventType, step string, d record.Detail) {
	g.options.Records.Event(record.Event{At: at, Type: what, Name: step, Detail: d})
}

// advanceLocked computes when the next call is due; callers hold mu, or are alone.
func (f *flight) advanceLocked() {
	f.nextDue = distant
	if f.next < f.calls {
		if due := f.plan.Pace.Due(f.next); due != never {
			f.nextDue = f.begin.Add(due)
		}
	}
}

// runPace drives the flight whenever a call falls due, until the last is over.
func (f *flight) runPace(ctx context.Context) error {
	defer f.alarm.timer.Stop()
	for {
		f.sendDue()
		f.g.plane.client.Flush()
		at, over := f.nextWake()
		if over {
			return nil
		}
		if err := f.alarm.sleepUntil(ctx, min(at, f.watches.sampleIfDue(f))); err != nil {
			f.stop()
			return err
		}
	}
}

// nextWake returns until when there is nothing to be driven, and whether all is over.
func (f *flight) nextWake() (at clock.Time, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	over = f.open == 0 && !f.driving && f.dueLocked(f.g.options.Clock.Now()) == distant
	at = f.wakeTimeLocked()
	f.sleeping = at
	return at, over
}

// wakeTimeLocked returns when the flight is to be driven if nothing else drives it;
// callers hold mu.
func (f *flight) wakeTimeLocked() clock.Time {
	switch {
	case !f.starved:
		return f.dueLocked(f.g.options.Clock.Now())
	case len(f.waitingSlots) > 0:
		return f.waiting.firstDue()
	}
	return distant // the next free slot does
}

// dueLocked returns when the next call may be sent, by the pace or again; distant
// when only the end of another call can tell. Callers hold mu.
func (f *flight) dueLocked(now clock.Time) clock.Time {
	if f.stopped {
		return distant
	}
	again := f.waiting.firstDue()
	if f.closed && f.next < f.calls && now > f.limit {
		f.calls = f.next // time is up
	}
	if f.hasNoRoomLocked() {
		return again
	}
	return min(again, f.nextDue)
}

// hasNoRoomLocked tells whether the pace's next call has to wait for other calls; callers
// hold mu.
func (f *flight) hasNoRoomLocked() bool {
	return f.pool > 0 && (f.next >= f.calls || f.busyLocked() >= f.pool) || f.population.isFull()
}

// busyLocked returns how many of a pool's places are taken; callers hold mu. Calls of
// a burst that wait to be sent again and watches that are held take none.
func (f *flight) busyLocked() int {
	if f.closed {
		return f.open
	}
	return f.open - len(f.waiting) - int(f.watches.open.Load())
}

// driveIfRoom lets a burst go on where a call makes room before it is over.
func (f *flight) driveIfRoom() {
	if f.pool > 0 && !f.closed {
		f.sendDue()
	}
}

// sendDue sends what is due, as far as there is room. One goroutine at a time does
// so; others find it at work, and it sees what they came for.
func (f *flight) sendDue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.driving {
		return
	}
	f.driving, f.starved = true, false
	for n := 0; ; n++ {
		if n == maxPerDrive {
			f.alarm.wakeUp()
			break
		}
		s := f.chooseLocked()
		if s == nil {
			break
		}
		f.mu.Unlock()
		s.buildAndSend()
		f.mu.Lock()
	}
	f.driving = false
	if at := f.wakeTimeLocked(); at < f.sleeping || f.open == 0 && at == distant {
		f.alarm.wakeUp()
	}
}

// chooseLocked takes the call that is due first, if one is due, and a slot for it;
// callers hold mu.
func (f *flight) chooseLocked() *slot {
	for {
		now := f.g.options.Clock.Now()
		if f.dueLocked(now) > now {
			return nil
		}
		if again := f.waiting.firstDue(); again <= now && (again <= f.nextDue || len(f.waitingSlots) > 0 || f.hasNoRoomLocked()) {
			if f.chargeLocked(now) {
				continue
			}
			return f.chooseAgain()
		}
		if f.population.isLimited() {
			heap.Push(&f.waiting, f.takeNextLocked())
			f.population.throttled++
			continue
		}
		s := f.takeSlotLocked()
		if s != nil {
			s.call = f.takeNextLocked()
		}
		return s
	}
}

// takeNextLocked takes the pace's next call; callers hold mu.
func (f *flight) takeNextLocked() call {
	out := call{flight: f, index: f.next, due: f.nextDue}
	f.next += f.plan.Share.Stride()
	f.open++
	f.advanceLocked()
	return out
}

// chooseAgain takes the first of the calls that wait to be sent again.
func (f *flight) chooseAgain() *slot {
	var s *slot
	if last := len(f.waitingSlots) - 1; last >= 0 {
		s, f.waitingSlots = f.waitingSlots[last], f.waitingSlots[:last]
	} else if s = f.takeSlotLocked(); s == nil {
		return nil
	}
	if s.call = heap.Pop(&f.waiting).(call); f.population.isLimited() && s.attempt == 0 && s.informing == nil {
		f.population.throttled--
	}
	return s
}

// takeSlotLocked takes a free slot, if there is one.
func (f *flight) takeSlotLocked() *slot {
	s := f.g.takeSlot(f)
	f.starved = s == nil
	return s
}

// buildAndSend builds a slot's call and hands it over.
func (s *slot) buildAndSend() {
	s.clearRequest()
	wanted, err := s.flight.plan.Build(s.index, &s.req)
	if err == nil && wanted {
		err = s.checkRequest()
	}
	switch {
	case err != nil:
		s.countUnbuilt(err)
	case !wanted:
		s.leaveOut()
		s.endCall()
	default:
		s.postRequest()
	}
}

// clearRequest makes an empty request.
func (s *slot) clearRequest() {
	s.req = Request{}
	s.req.Discard, s.req.Body, s.posted = true, s.body[:0], 0
}

// checkRequest keeps the body's memory and says what is wrong with a request.
func (s *slot) checkRequest() error {
	if cap(s.req.Body) > cap(s.body) {
		s.body = s.req.Body[:0]
	}
	if s.req.Member < 0 || s.req.Member > len(s.g.members) {
		return fmt.Errorf("%w: member %d of %d", ErrPlan, s.req.Member, len(s.g.members))
	}
	for _, op := range []int{s.req.Op, s.req.ListOp} {
		if op < 0 || op >= len(s.flight.ops) {
			return fmt.Errorf("%w: operation %d of %d", ErrPlan, op, len(s.flight.ops))
		}
	}
	if s.req.Informer != informer.None && (s.flight.population == nil || s.req.Hold <= 0) {
		return fmt.Errorf("%w: an informer is one of clients, and informs itself for some time", ErrPlan)
	}
	return nil
}

func (s *slot) postRequest() {
	s.g.stats.sent.Add(1)
	if p := s.flight.population; p != nil {
		p.sign(s.index, &s.req.Request)
		s.posted = s.g.options.Clock.Now()
		if s.req.Informer != informer.None {
			s.fillAsk()
		}
	}
	switch {
	case s.req.Hold > 0:
		s.holdWatch()
		return
	case s.req.Pages:
		s.scan.beginPage(s.req.Path, s.token)
		s.req.Path, s.req.Data = s.scan.pagePath(), s.data
	}
	switch {
	case s.flight.plan.Anew:
		s.sendAnew()
		return
	case s.flight.population != nil:
		s.flight.population.connectionOf(s.index).Send(&s.req.Request, s.callback)
		return
	case s.req.Member > 0:
		s.g.members[s.req.Member-1].client.Send(&s.req.Request, s.callback)
		return
	}
	s.g.plane.client.Post(&s.req.Request, s.callback)
}

// countUnbuilt counts a call that could not be built as failed.
func (s *slot) countUnbuilt(err error) {
	f := s.flight
	f.mu.Lock()
	if f.bad++; f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	if s.req.Op < 0 || s.req.Op >= len(f.ops) {
		s.req.Op = 0
	}
	result := s.recordCall(record.Failed, &wire.Response{Done: s.g.options.Clock.Now(), Err: err}, false)
	result.Last = true
	s.reportResult(result)
	s.endCall()
}

// CutShortError says that a plan was ended before all of its calls were sent.
type CutShortError struct {
	Sent, Asked int   // calls, of this process's share
	Cause       error // why it was ended
}

func (e *CutShortError) Error() string {
	return fmt.Sprintf("%v: %d of %d calls were sent", e.Cause, e.Sent, e.Asked)
}

func (e *CutShortError) Unwrap() error { return e.Cause }

// explainEnd adds to the cause of an early end how many of the plan's calls were sent.
func (f *flight) explainEnd(cause error) error {
	if f.next >= f.calls || f.plan.Count == 0 {
		return cause
	}
	return &CutShortError{f.plan.Share.Count(f.next), f.plan.Share.Count(f.calls), cause}
}

// stop ends a flight early: what has not left stays, what is in flight is
// waited for, and watches are closed.
func (f *flight) stop() {
	f.mu.Lock()
	f.stopped = true
	f.open -= len(f.waiting)
	aside := f.waitingSlots
	f.waiting, f.waitingSlots = nil, nil
	f.mu.Unlock()
	for _, s := range aside {
		s.g.releaseSlot(s)
	}
	tick := time.NewTicker(stopTick)
	defer tick.Stop()
	for {
		f.g.dropWatches(f) // again and again: one may have been on its way
		if _, over := f.nextWake(); over {
			return
		}
		select {
		case <-f.alarm.kick:
		case <-tick.C:
		}
	}
}

// stopTick is how often a flight that was stopped looks for watches.
const stopTick = 100 * time.Millisecond
