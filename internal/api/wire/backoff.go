package wire

import "time"

// Backoff is how long to pause before another attempt: First after the first
// failure, twice as long after each one that follows, Last at most.
type Backoff struct{ First, Last time.Duration }

// CallBackoff is the backoff of single calls.
func CallBackoff() Backoff { return Backoff{First: 100 * time.Millisecond, Last: 30 * time.Second} }

// Pause returns the pause after a failure that so many others came before.
func (b Backoff) Pause(before int) time.Duration {
	const doublings = 16 // more would exceed any Last, and overflow in the end
	return min(b.First<<min(before, doublings), b.Last)
}

// Jittered is a Pause with Jitter.
func (b Backoff) Jittered(before int, random float64) time.Duration {
	return Jitter(b.Pause(before), random)
}

// Jitter moves a pause by up to 20 % either way, so that calls that failed together
// do not come back together; random is in [0, 1).
func Jitter(pause time.Duration, random float64) time.Duration {
	return time.Duration(float64(pause) * (0.8 + 0.4*random))
}
