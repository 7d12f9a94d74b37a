package load

import (
	"container/heap"
	"net/http"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// maxWaiting is how many calls of a flight wait to be sent again and keep
// nothing but their number. For each one beyond, a slot is put aside, so that a
// server which refuses everything slows the load down and fills no memory.
const maxWaiting = 10_000

// retries is a heap of calls that wait: to be sent again, or for the limiters of their
// clients. The one that may be sent first is on top.
type retries []call

func (r retries) Len() int           { return len(r) }
func (r retries) Less(i, j int) bool { return r[i].turn() < r[j].turn() }
func (r retries) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push and Pop are heap.Interface's.
func (r *retries) Push(x any) { *r = append(*r, x.(call)) }

func (r *retries) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	(*r)[last] = call{}
	*r = (*r)[:last]
	return x
}

// turn returns when a call may be sent.
func (c *call) turn() clock.Time { return max(c.due, c.at) }

// firstDue returns when the first of them may be sent.
func (r retries) firstDue() clock.Time {
	if len(r) == 0 {
		return distant
	}
	return r[0].turn()
}

// wantsRetry tells whether a call that ended so is one of those to be sent again.
func (r *Retry) wantsRetry(o record.Outcome, code int) bool {
	if r.Codes != nil {
		return slices.Contains(r.Codes, code) && (code != 0 || o == record.Unknown)
	}
	return o == record.Failed && (code == 0 || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError)
}

// delayAfter returns the time from an attempt's end to the next one; attempt is the
// number of the one that failed, from 0.
func (r *Retry) delayAfter(attempt int, retryAfter time.Duration) time.Duration {
	d := r.Delay
	if d <= 0 {
		d = DefaultRetryDelay
	}
	backoff := wire.Backoff{First: d, Last: max(maxRetryDelay, r.Delay)}
	return max(backoff.Pause(attempt), retryAfter)
}

// retryCall tells whether a call that ended so is sent again, and how it will be.
func (s *slot) retryCall(o record.Outcome, r *wire.Response) (call, bool) {
	f := s.flight
	p := &f.plan.Retry
	c, again := s.call, s.attempt < p.Times && p.wantsRetry(o, r.Code)
	if !again && c.until <= r.Done {
		return call{}, false
	}
	c.attempt++
	c.charged, c.at, c.throttled = false, 0, 0
	c.unsure = c.unsure || o == record.Unknown || r.Code >= http.StatusInternalServerError
	if c.due = r.Done.Add(p.delayAfter(s.attempt, r.RetryAfter)); c.until > 0 {
		c.due = r.Done.Add(max(f.plan.Clients.PauseBefore(s.index, s.attempt), r.RetryAfter))
	}
	if !s.req.Pages {
		c.chain = 0
	}
	return c, c.due <= f.limit
}

// waitLocked puts a call among those that wait until they are due; callers hold mu.
func (f *flight) waitLocked(c call) {
	heap.Push(&f.waiting, c)
	if c.due < f.sleeping {
		f.alarm.wakeUp()
	}
}

// waitForRetry puts a call among those that are sent again, and gives the slot back
// that it had.
func (s *slot) waitForRetry(c call) {
	f := s.flight
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		s.endCall()
		return
	}
	f.waitLocked(c)
	aside := len(f.waiting) > maxWaiting
	if aside {
		f.waitingSlots = append(f.waitingSlots, s)
	}
	f.mu.Unlock()
	s.g.stats.retries.Add(1)
	if !aside {
		s.g.releaseSlot(s)
	}
	f.driveIfRoom()
}
