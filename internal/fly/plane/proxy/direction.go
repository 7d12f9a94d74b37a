package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// lateAfter is the accuracy that the proxy promises.
const lateAfter = time.Millisecond

// direction is one direction of all connections: its counts and its bandwidth.
type direction struct {
	bytes, writes, timed, late, maxLate, full atomic.Int64

	mu   sync.Mutex
	free clock.Time // when the last byte that has been given a place is through
}

func (d *direction) readStats() Direction {
	return Direction{
		Bytes: d.bytes.Load(), Writes: d.writes.Load(), Timed: d.timed.Load(), Late: d.late.Load(),
		MaxLate: time.Duration(d.maxLate.Load()), Full: d.full.Load(),
	}
}

// recordWake notes how long after its due time something was woken.
func (d *direction) recordWake(late time.Duration) {
	d.timed.Add(1)
	if late > lateAfter {
		d.late.Add(1)
	}
	for {
		most := d.maxLate.Load()
		if int64(late) <= most || d.maxLate.CompareAndSwap(most, int64(late)) {
			return
		}
	}
}

// reserveTime returns when the last of n bytes is through, if they start now, and
// takes the time until then.
func (d *direction) reserveTime(now clock.Time, n int, bytesPerSecond int64) clock.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = max(now, d.free).Add(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
	return d.free
}

// portionOf is how many bytes are sent at a time: 10 ms of it, so that
// connections share it fairly and a change of bandwidth holds soon.
func portionOf(bytesPerSecond int64) int {
	if bytesPerSecond == 0 {
		return blockBytes
	}
	return int(min(max(bytesPerSecond/100, 1), blockBytes))
}
