package fleet

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// schedule calls what is due, one after the other, by one goroutine.
type schedule struct {
	clock clock.Clock
	late  func(time.Duration)
	mu    sync.Mutex
	queue entries
	wake  chan struct{}
}

// entry is something due. At rest an edge has one.
type entry struct {
	due  clock.Time
	call func()
}

type entries []entry

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, k int) bool { return e[i].due < e[k].due }
func (e entries) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }
func (e *entries) Push(x any)        { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry{}
	*e = (*e)[:last]
	return x
}

func (s *schedule) at(due clock.Time, call func()) {
	s.mu.Lock()
	heap.Push(&s.queue, entry{due, call})
	first := s.queue[0].due == due
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *schedule) in(d time.Duration, call func()) { s.at(s.clock.Now().Add(d), call) }

// run calls what is due until ctx ends.
func (s *schedule) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.mu.Lock()
		pause := time.Hour
		if len(s.queue) > 0 {
			pause = s.clock.Until(s.queue[0].due)
		}
		if pause <= 0 {
			e := heap.Pop(&s.queue).(entry)
			s.mu.Unlock()
			s.late(-pause)
			e.call()
			continue
		}
		s.mu.Unlock()
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}
