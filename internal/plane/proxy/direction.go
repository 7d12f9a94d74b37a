package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// lateAfter is the accuracy that the relay promises.
const lateAfter = time.Millisecond

// way is one direction of all connections: its counts and its bandwidth.
type way struct {
	bytes, writes, timed, late, maxLate, full atomic.Int64

	mu   sync.Mutex
	free clock.Time // when the last byte that has been given a place is through
}

func (w *way) count() Way {
	return Way{
		Bytes: w.bytes.Load(), Writes: w.writes.Load(), Timed: w.timed.Load(), Late: w.late.Load(),
		MaxLate: time.Duration(w.maxLate.Load()), Full: w.full.Load(),
	}
}

// woke notes how long after its due time something was woken.
func (w *way) woke(late time.Duration) {
	w.timed.Add(1)
	if late > lateAfter {
		w.late.Add(1)
	}
	for {
		most := w.maxLate.Load()
		if int64(late) <= most || w.maxLate.CompareAndSwap(most, int64(late)) {
			return
		}
	}
}

// through returns when the last of n bytes is through, if they start now, and
// takes the time until then.
func (w *way) through(now clock.Time, n int, bytesPerSecond int64) clock.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = max(now, w.free).Add(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
	return w.free
}

// portion is how many bytes are put on the way at a time: 10 ms of it, so that
// connections share it fairly and a change of bandwidth holds soon.
func portion(bytesPerSecond int64) int {
	if bytesPerSecond == 0 {
		return blockBytes
	}
	return int(min(max(bytesPerSecond/100, 1), blockBytes))
}
