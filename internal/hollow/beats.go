package hollow

import (
	"slices"
	"sync"
	"time"
)

// Beats is how the leases of nodes were renewed.
type Beats struct {
	Renewed  int64
	Lateness []time.Duration // at p50, p99 and at most, of those since the last look
}

// beats counts renewals.
type beats struct {
	mu      sync.Mutex
	renewed int64
	late    []time.Duration
}

// lateKept is of how many renewals the lateness is kept between two looks.
const lateKept = 1 << 20

func (b *beats) note(late time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed++
	if len(b.late) < lateKept {
		b.late = append(b.late, late)
	}
}

// Beats returns how leases were renewed, and begins to look at lateness again.
func (s *Server) Beats() Beats {
	b := &s.beats
	b.mu.Lock()
	defer b.mu.Unlock()
	out := Beats{Renewed: b.renewed}
	slices.Sort(b.late)
	if n := len(b.late); n > 0 {
		out.Lateness = []time.Duration{b.late[n/2], b.late[n*99/100], b.late[n-1]}
	}
	b.late = nil
	return out
}
