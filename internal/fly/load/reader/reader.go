// Package reader says how much of a watch a slow client has read: at a speed, or not at all
// for some time. It knows no connection and no clock: moments and waiting bytes go in, how
// many of them are read comes out.
package reader

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Speed is how a client reads.
type Speed struct {
	Rate   float64       // bytes per second; 0: all that has come
	Stalls bool          // it stops reading
	After  time.Duration // so long after Begin
	For    time.Duration // for so long; 0: it never reads again
}

// never is later than every moment of a run.
const never = clock.Time(1<<63 - 1)

// Reader is a client that reads, of one watch after another.
type Reader struct {
	speed Speed
	began bool
	stall clock.Time // begins
	end   clock.Time // of the stall
	at    clock.Time // it has read until then
	spare float64    // bytes that it could have read since, below one
}

// New returns a reader with a speed.
func New(s Speed) *Reader { return &Reader{speed: s, stall: never, end: never} }

// Begin says that the client's first watch is open. Later ones change nothing.
func (r *Reader) Begin(now clock.Time) {
	if r.began {
		return
	}
	r.began, r.at = true, now
	if r.speed.Stalls {
		r.stall = now.Add(r.speed.After)
		if r.speed.For > 0 {
			r.end = r.stall.Add(r.speed.For)
		}
	}
}

// Read returns how many of the waiting bytes are read by now, and when to ask again if bytes
// are left. It is also asked, with none waiting, when the first ones come.
func (r *Reader) Read(now clock.Time, waiting int) (n int, next clock.Time) {
	active := r.activeUntil(now)
	r.at, next = max(r.at, now), now
	stalled := now >= r.stall && now < r.end
	if stalled {
		next = r.end
	}
	if waiting == 0 {
		r.spare = 0
		return 0, next
	}
	if r.speed.Rate == 0 {
		if stalled {
			return 0, next
		}
		return waiting, next
	}
	r.spare += active.Seconds() * r.speed.Rate
	n = min(int(r.spare), waiting)
	if r.spare -= float64(n); n == waiting {
		r.spare = 0
	}
	return n, next
}

// activeUntil returns how long the client has read since it was last asked: the time without
// the stall.
func (r *Reader) activeUntil(now clock.Time) time.Duration {
	d := now.Sub(r.at)
	if from, to := max(r.at, r.stall), min(now, r.end); to > from {
		d -= to.Sub(from)
	}
	return max(0, d)
}
