package fleet

import (
	"math/bits"
	"time"

	"github.com/windtunnel/windtunnel/clock"
)

// wheel is a hashed timing wheel: setting and firing a timer cost the same for
// ten timers and for a million. A timer fires up to one tick late, never early.
// It belongs to one goroutine.
type wheel struct {
	slots  [wheelSlots]timer // heads of rings
	used   [wheelSlots / 64]uint64
	tick   int64 // every slot up to this one was fired
	count  int
	firing []*timer
}

const (
	wheelSlots = 4096
	wheelTick  = int64(4 * time.Millisecond)
)

// timer is an entry of the wheel, embedded in what waits.
type timer struct {
	due        clock.Time
	next, prev *timer
	fire       func() // nil in heads
	now        bool   // taken out to be fired
}

func (t *timer) waiting() bool { return t.next != nil }

// set arms a timer, again if it is armed.
func (w *wheel) set(t *timer, due clock.Time) {
	w.stop(t)
	t.due = due
	// Rounded up, so that the slot's time is not before the timer's; never a
	// slot that was fired already.
	tick := max((int64(due)+wheelTick-1)/wheelTick, w.tick+1)
	slot := tick % wheelSlots
	head := &w.slots[slot]
	if head.next == nil {
		head.next, head.prev = head, head
	}
	t.next, t.prev = head, head.prev
	t.prev.next, head.prev = t, t
	w.used[slot/64] |= 1 << (slot % 64)
	w.count++
}

// stop disarms a timer; nothing happens when it is not armed.
func (w *wheel) stop(t *timer) {
	t.now = false
	if !t.waiting() {
		return
	}
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
	w.count--
}

// advance fires what is due. Timers set by fire take part when they are due in
// a later tick.
func (w *wheel) advance(now clock.Time) {
	end := int64(now) / wheelTick
	if end-w.tick > wheelSlots {
		w.tick = end - wheelSlots // the wheel turned more than once: each slot is visited once
	}
	for w.tick < end {
		w.tick++
		slot := w.tick % wheelSlots
		if w.used[slot/64]&(1<<(slot%64)) != 0 {
			w.fireSlot(int(slot), now)
		}
	}
}

func (w *wheel) fireSlot(slot int, now clock.Time) {
	head := &w.slots[slot]
	w.firing = w.firing[:0]
	for t := head.next; t != head; {
		next := t.next
		if t.due <= now { // else it is for a later turn
			w.stop(t)
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
			t.fire()
		}
	}
}

// wake returns when advance is worth calling next; false when nothing waits.
func (w *wheel) wake() (clock.Time, bool) {
	if w.count == 0 {
		return 0, false
	}
	for step := int64(1); step <= wheelSlots; {
		slot := (w.tick + step) % wheelSlots
		word := w.used[slot/64] >> (slot % 64)
		if word != 0 {
			step += int64(bits.TrailingZeros64(word))
			return clock.Time((w.tick + step) * wheelTick), true
		}
		step += 64 - slot%64
	}
	return clock.Time((w.tick + wheelSlots) * wheelTick), true
}
