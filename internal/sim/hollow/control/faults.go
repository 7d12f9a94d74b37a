// Package control changes hollow clusters from outside of their API: faults, tokens, and
// snapshots of their objects.
package control

import (
	"sync/atomic"
	"time"
)

// Faults are what is wrong with one cluster at the moment. Their methods may be called
// from many goroutines.
type Faults struct {
	down   atomic.Bool
	halt   atomic.Pointer[chan struct{}] // closed while the cluster is down
	factor atomic.Int64                  // of the duration of answers, in slowUnit; 0: one
}

// slowUnit is how a factor is kept as an integer.
const slowUnit = 1000

// NewFaults returns no faults.
func NewFaults() *Faults {
	f := &Faults{}
	f.halt.Store(new(make(chan struct{})))
	return f
}

// Stop takes the cluster down. It reports whether the cluster was up.
func (f *Faults) Stop() bool {
	if f.down.Swap(true) {
		return false
	}
	close(*f.halt.Load())
	return true
}

// Start takes the cluster up again.
func (f *Faults) Start() {
	f.halt.Store(new(make(chan struct{})))
	f.down.Store(false)
}

// IsDown reports whether the cluster is down.
func (f *Faults) IsDown() bool { return f.down.Load() }

// Halted returns a channel that is closed when the cluster goes down.
func (f *Faults) Halted() <-chan struct{} { return *f.halt.Load() }

// SetFactor makes answers take so many times as long; 1: as long as they take.
func (f *Faults) SetFactor(factor float64) { f.factor.Store(int64(factor * slowUnit)) }

// IsSlow reports whether answers take longer than they would.
func (f *Faults) IsSlow() bool { return f.factor.Load() > slowUnit }

// Delay returns how much longer an answer takes that took so long.
func (f *Faults) Delay(took time.Duration) time.Duration {
	return took * time.Duration(max(0, f.factor.Load()-slowUnit)) / slowUnit
}
