package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// schedule fires timers when they are due, one after the other, in one goroutine.
type schedule struct {
	clock clock.Clock
	late  func(time.Duration)
	wake  chan struct{}
	due   []*wheel.Timer // the goroutine's own

	mu     sync.Mutex // guards what follows
	wheel  wheel.Wheel
	sleeps clock.Time // until then the goroutine sleeps, unless it is woken
}

func newSchedule(c clock.Clock, late func(time.Duration)) *schedule {
	s := &schedule{clock: c, late: late, wake: make(chan struct{}, 1)}
	s.wheel.Start(c.Now())
	return s
}

// fireAt lets a timer fire at a time.
func (s *schedule) fireAt(due clock.Time, t *wheel.Timer) {
	s.mu.Lock()
	s.wheel.Set(t, due)
	first := due < s.sleeps
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// callAfter calls fire after a while.
func (s *schedule) callAfter(d time.Duration, fire func()) {
	s.fireAt(s.clock.Now().Add(d), &wheel.Timer{Fire: fire})
}

// runDue fires what is due until ctx ends.
func (s *schedule) runDue(ctx context.Context) {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	for ctx.Err() == nil {
		for _, t := range s.takeDue() {
			s.late(s.clock.Now().Sub(t.Due))
			t.Fire()
		}
		sleep.Reset(s.restLength())
		select {
		case <-sleep.C:
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// takeDue takes what is due out of the wheel.
func (s *schedule) takeDue() []*wheel.Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.due)
	s.due = s.due[:0]
	s.wheel.Expire(s.clock.Now(), func(t *wheel.Timer) { s.due = append(s.due, t) })
	return s.due
}

// restLength returns for how long nothing is due.
func (s *schedule) restLength() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	pause := s.wheel.Pause(now)
	s.sleeps = now.Add(pause)
	return pause
}
