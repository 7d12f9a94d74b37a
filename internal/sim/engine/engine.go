// Package engine decides which call for which simulated object is made next. It is
// the core of what plays stages on many objects: events, answers and the time go in,
// calls and the time when to look again come out. It has no clock, no server, no
// goroutine and no lock. Its drivers have them: packages fleet and player.
//
// A call waits for its time in a wheel, then in the queue of its class until there is
// room among the calls under way, and is then with its driver until it is answered.
// What drivers share is here: bounded calls in flight, back-off, one call at a time for
// an object, coalescing of events, cancellation. What a call says, what its answer means
// and which objects a list no longer holds (watch.Relist) is the driver's.
//
// The edges of the edge plane have no such calls: they send at once, and acknowledge and
// send again by rules of their own. They share package wheel.
package engine

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// Call is one call to be made. J is the driver's type of what is to be done: a J embeds
// its Call, and Prepare connects the two before use.
type Call[J any] struct {
	Due     clock.Time // when it was due first: pauses of retries do not move it
	Version uint64     // of the object for which it was chosen
	Attempt int        // tries before this one
	Class   uint8      // the queue that it waits in from Enqueue on; not changed while it is sent

	job        *J
	timer      wheel.Timer // of a delay or a pause
	notBefore  clock.Time  // when the pause before this try ends
	in         *List[J]    // the queue, or what holds it
	next, prev *Call[J]    // in it
	sent       bool
	cancelled  bool
}

// Sent says that the driver has the call and no answer yet.
func (c *Call[J]) Sent() bool { return c.sent }

// Cancelled says that nobody waits for the answer of a sent call any more.
func (c *Call[J]) Cancelled() bool { return c.cancelled }

// Class is a queue of calls.
type Class[J any] struct {
	// Max is how many of its calls may be under way at once; 0: as many as the engine's
	// Max allows. Each answer of a server that could not take the call halves it, each
	// other answer gives one back: pauses between a call's tries do not change how many
	// calls a server that is behind has to answer at a time.
	Max int

	queue    List[J]
	underWay int
	withheld int // of Max, after refusals
}

func (c *Class[J]) hasNext() bool {
	return c.queue.n > 0 && (c.Max == 0 || c.underWay < c.Max-c.withheld)
}

// Engine holds the calls of one driver, and any timers of the driver beside them. Set
// its fields and Start its wheel before use.
type Engine[J any] struct {
	wheel.Wheel

	// Classes are the queues. Calls of the first one go before all others; the other
	// classes take turns.
	Classes  []Class[J]
	Max      int                             // calls under way at once; 0: any number
	Reserved int                             // how many of Max are kept for the first class
	Backoff  func(attempt int) time.Duration // before a call is tried again
	Freed    func(*J)                        // told of each call that is freed; may be nil

	underWay int
	turn     int // the class that had the last turn
}

// Prepare makes c the call of a job, once: after it is freed it can be used again.
func (e *Engine[J]) Prepare(c *Call[J], job *J) {
	c.job = job
	c.timer.Fire = func() { e.Enqueue(c) }
}

// UnderWay returns how many calls are sent and not answered.
func (e *Engine[J]) UnderWay() int { return e.underWay }

// Queued returns how many calls are due and wait for room.
func (e *Engine[J]) Queued() (n int) {
	for i := range e.Classes {
		n += e.Classes[i].queue.n
	}
	return n
}

// QueuedIn returns how many calls of a class are due and wait for room.
func (e *Engine[J]) QueuedIn(class uint8) int { return e.Classes[class].queue.n }

// Schedule lets a call wait until it is due and its pause is over; if both are, for room.
func (e *Engine[J]) Schedule(c *Call[J], now clock.Time) {
	at := max(c.Due, c.notBefore)
	if at <= now {
		e.Enqueue(c)
		return
	}
	e.remove(c)
	e.Set(&c.timer, at)
}

// Enqueue lets a call wait for room, whenever it was due. A queued one keeps its place.
func (e *Engine[J]) Enqueue(c *Call[J]) {
	if queue := &e.Classes[c.Class].queue; c.in != queue {
		e.remove(c)
		queue.push(c)
	}
}

// Hold lets a call wait in a list of the driver, until Resume.
func (e *Engine[J]) Hold(c *Call[J], in *List[J]) {
	e.remove(c)
	in.push(c)
}

// Resume lets the calls of a list go on; they are due now.
func (e *Engine[J]) Resume(from *List[J], now clock.Time) {
	for c := from.first; c != nil; c = from.first {
		c.Due = now
		e.Enqueue(c)
	}
}

// Next takes the next call out of its queue; nil when none is due, or no more may be
// under way. The driver sends the call (Send), holds it, or frees it.
func (e *Engine[J]) Next() *J {
	if e.Max > 0 && e.underWay >= e.Max {
		return nil
	}
	if e.Classes[0].hasNext() {
		return e.Classes[0].queue.pop().job
	}
	if e.Max > 0 && e.underWay >= e.Max-e.Reserved {
		return nil
	}
	for range e.Classes[1:] {
		if e.turn++; e.turn >= len(e.Classes) {
			e.turn = 1
		}
		if c := &e.Classes[e.turn]; c.hasNext() {
			return c.queue.pop().job
		}
	}
	return nil
}

// Send counts a call that the driver sends.
func (e *Engine[J]) Send(c *Call[J]) {
	c.sent = true
	e.underWay++
	e.Classes[c.Class].underWay++
}

// Answer counts the answer to a call; refused says that the server could not take the
// call now. The driver decides what follows.
func (e *Engine[J]) Answer(c *Call[J], refused bool) {
	c.sent = false
	e.underWay--
	class := &e.Classes[c.Class]
	class.underWay--
	switch {
	case refused && class.Max > 0:
		class.withheld = class.Max - max(1, (class.Max-class.withheld)/2)
	case class.withheld > 0:
		class.withheld--
	}
}

// Retry lets a call wait before its next try: for its back-off, or longer where the
// server asks for that.
func (e *Engine[J]) Retry(c *Call[J], now clock.Time, atLeast time.Duration) {
	c.notBefore = now.Add(max(e.Backoff(c.Attempt), atLeast))
	c.Attempt++
	e.Schedule(c, now)
}

// Cancel frees a call, wherever it waits; the driver frees a sent one after its answer.
func (e *Engine[J]) Cancel(c *Call[J]) {
	if c.sent {
		c.cancelled = true
		return
	}
	e.Free(c)
}

// Free ends a call that is not sent.
func (e *Engine[J]) Free(c *Call[J]) {
	e.remove(c)
	*c = Call[J]{job: c.job, timer: wheel.Timer{Fire: c.timer.Fire}}
	if e.Freed != nil {
		e.Freed(c.job)
	}
}

// remove takes a call out of the wheel, or of the list that it is in.
func (e *Engine[J]) remove(c *Call[J]) {
	e.Stop(&c.timer)
	if c.in != nil {
		c.in.remove(c)
	}
}

// List is calls in a row, first in, first out. The zero value is empty.
type List[J any] struct {
	first, last *Call[J]
	n           int
}

func (l *List[J]) push(c *Call[J]) {
	c.in, c.prev = l, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
	l.n++
}

func (l *List[J]) pop() *Call[J] {
	c := l.first
	l.remove(c)
	return c
}

func (l *List[J]) remove(c *Call[J]) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.next, c.prev = nil, nil, nil
	l.n--
}
