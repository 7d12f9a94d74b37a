// Package wheel is a hashed timing wheel: setting and firing a timer cost the
// same for ten timers and for a million. It has no goroutine and no clock of its
// own.
package wheel

import (
	"math/bits"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Wheel holds timers. A timer fires up to one Tick late, never early. It belongs
// to one goroutine; Start it before use.
type Wheel struct {
	slots  [slots]Timer // heads of rings
	used   [slots / 64]uint64
	tick   int64 // every slot up to this one was fired
	count  int
	firing []*Timer
}

// Tick is how precise timers are.
const Tick = 4 * time.Millisecond

const (
	slots = 4096
	tick  = int64(Tick)
)

// Start says what time it is; no timer may have been set before.
func (w *Wheel) Start(now clock.Time) { w.tick = int64(now) / tick }

// Len returns how many timers wait.
func (w *Wheel) Len() int { return w.count }

// Timer is an entry of the wheel, embedded in what waits.
type Timer struct {
	Due        clock.Time // when it was last set to
	Fire       func()     // nil in heads
	next, prev *Timer
	now        bool // taken out to be fired
}

// Waiting says that the timer is armed.
func (t *Timer) Waiting() bool { return t.next != nil }

// Set arms a timer, again if it is armed.
func (w *Wheel) Set(t *Timer, due clock.Time) {
	w.Stop(t)
	t.Due = due
	// Rounded up, so that the slot's time is not before the timer's; never a
	// slot that was fired already.
	at := max((int64(due)+tick-1)/tick, w.tick+1)
	slot := at % slots
	head := &w.slots[slot]
	if head.next == nil {
		head.next, head.prev = head, head
	}
	t.next, t.prev = head, head.prev
	t.prev.next, head.prev = t, t
	w.used[slot/64] |= 1 << (slot % 64)
	w.count++
}

// Stop disarms a timer; nothing happens when it is not armed.
func (w *Wheel) Stop(t *Timer) {
	t.now = false
	if !t.Waiting() {
		return
	}
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	w.count--
}

// Advance fires what is due. Timers set by fire take part when they are due in
// a later tick.
func (w *Wheel) Advance(now clock.Time) { w.Expire(now, func(t *Timer) { t.Fire() }) }

// Expire is Advance for those who fire what is due themselves, such as when they
// have released a lock: visit is handed each timer in place of its Fire.
func (w *Wheel) Expire(now clock.Time, visit func(*Timer)) {
	end := int64(now) / tick
	if end-w.tick > slots {
		w.tick = end - slots // the wheel turned more than once: each slot is visited once
	}
	for w.tick < end {
		w.tick++
		slot := w.tick % slots
		if w.used[slot/64]&(1<<(slot%64)) != 0 {
			w.expireSlot(int(slot), now, visit)
		}
	}
}

func (w *Wheel) expireSlot(slot int, now clock.Time, visit func(*Timer)) {
	head := &w.slots[slot]
	w.firing = w.firing[:0]
	for t := head.next; t != head; {
		next := t.next
		if t.Due <= now { // else it is for a later turn
			w.Stop(t)
			t.now = true
			w.firing = append(w.firing, t)
		}
		t = next
	}
	if head.next == head {
		w.used[slot/64] &^= 1 << (slot % 64)
	}
	for _, t := range w.firing {
		if t.now { // and was not stopped or set by one before it
			t.now = false
			visit(t)
		}
	}
}

// Pause returns for how long after now Advance is not worth calling: at most an hour.
func (w *Wheel) Pause(now clock.Time) time.Duration {
	if wake, ok := w.Wake(); ok {
		return max(wake.Sub(now), 0)
	}
	return time.Hour
}

// Wake returns when Advance is worth calling next; false when nothing waits.
func (w *Wheel) Wake() (clock.Time, bool) {
	if w.count == 0 {
		return 0, false
	}
	for step := int64(1); step <= slots; {
		slot := (w.tick + step) % slots
		word := w.used[slot/64] >> (slot % 64)
		if word != 0 {
			step += int64(bits.TrailingZeros64(word))
			return clock.Time((w.tick + step) * tick), true
		}
		step += 64 - slot%64
	}
	return clock.Time((w.tick + slots) * tick), true
}
