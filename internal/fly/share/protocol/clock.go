package protocol

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Clock is how a worker's clock stands to the leader's: the leader's time is the
// worker's plus Offset, and no further from it than Bound.
type Clock struct {
	Offset time.Duration `json:"offset_ns"`
	Bound  time.Duration `json:"bound_ns"`
	Jumped bool          `json:"jumped,omitempty"` // two readings contradict each other: a clock was set, or slewed faster than clocks may
}

// drift is how fast two clocks may part, as a share of the time: the kernel slews
// each by at most 500 parts in a million.
const drift = 1e-3

// Estimate is what is known of another clock by asking it, as Cristian, Probabilistic
// clock synchronization, 1989, does: the answer was read between question and answer,
// so that the middle of the two is off by half of the round trip at most. On which of
// the ways the time was spent cannot be seen. As time goes by a reading is worth less,
// by what clocks may part; all readings lose the same, so that only the best is kept.
type Estimate struct {
	any      bool
	middle   clock.Time    // of the best reading, on the own clock
	offset   time.Duration // of the other clock
	half     time.Duration // of the round trip
	shortest time.Duration // shortest round trip of all
	jumped   bool
}

// Add takes a reading: asked and answered on the own clock, theirs on the other.
func (e *Estimate) Add(asked, theirs, answered clock.Time) {
	trip := max(0, answered.Sub(asked))
	middle := asked.Add(trip / 2)
	half, offset := trip/2+trip%2, theirs.Sub(middle)
	if !e.any {
		e.shortest = trip
	}
	e.shortest = min(e.shortest, trip)
	if e.any {
		known := e.At(middle)
		if apart := offset - known.Offset; max(apart, -apart) > known.Bound+half {
			e.jumped, e.any = true, false // what was known before is worth nothing any more
		} else if half >= known.Bound {
			return
		}
	}
	e.any, e.middle, e.offset, e.half = true, middle, offset, half
}

// At is what is known at a moment of the own clock. Before a first reading the bound
// is without end.
func (e *Estimate) At(now clock.Time) Clock {
	if !e.any {
		return Clock{Bound: time.Duration(1<<63 - 1)}
	}
	age := now.Sub(e.middle)
	age = max(age, -age) + e.half
	return Clock{Offset: e.offset, Bound: e.half + time.Duration(drift*float64(age)) + 1, Jumped: e.jumped}
}

// Trip is the shortest round trip.
func (e *Estimate) Trip() time.Duration { return e.shortest }

// Restart forgets a jump, which was told.
func (e *Estimate) Restart() { e.jumped = false }
