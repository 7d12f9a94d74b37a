package wire

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Reopening says how long to pause before a watch is opened again that has ended.
//
// An API server under load closes the watches that it cannot serve fast enough, several
// times a second: such a watch has brought events and goes on at once, as client-go's
// reflectors do, or what is seen by it is seen late. A server that ends each watch at
// once whatever it asks for is bounded by burstOpens, and by one a second from then on.
// A watch that has brought nothing is a failure, and pauses as Backoff says.
type Reopening struct {
	Backoff Backoff

	failed int        // in a row
	spent  float64    // of burstOpens
	last   clock.Time // when spent was that
}

// burstOpens is how often a watch that brings something may end in a short time until
// the next is opened after a pause.
const burstOpens = 10

// Pause returns how long to pause at a moment, once a watch has ended that had lasted
// so long, 0 if it was never opened, and whether it had brought anything.
func (r *Reopening) Pause(now clock.Time, lasted time.Duration, brought bool) time.Duration {
	if brought {
		r.failed = 0
		r.spent = max(0, r.spent-now.Sub(r.last).Seconds()) + 1
		r.last = now
		return time.Duration(max(0, r.spent-burstOpens) * float64(time.Second))
	}
	if lasted > r.Backoff.Last {
		r.failed = 0
	}
	r.failed++
	return max(0, r.Backoff.Pause(r.failed-1)-lasted)
}
