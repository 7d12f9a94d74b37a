package lifecycle

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// bounded is when something was seen, and how long before it may have happened.
type bounded struct {
	at     clock.Time
	within time.Duration
}

// watchState is what a watch of one resource has shown so far: it dates what it
// shows next. Its methods are called under the lock of those that it is for.
type watchState struct {
	probe       *Probe
	name        string               // of the resource, for events
	cluster     string               // the member; empty: the plane
	last        clock.Time           // the watch was whole until then: nothing before is unknown
	began       bool                 // a first list was read
	requestedAt clock.Time           // when the last list was asked for
	absent      clock.Time           // the resource was not served then; 0: nobody knows
	listed      watch.Relist[string] // by UID
	synced      chan struct{}
}

func newWatchState(name, cluster string, p *Probe) watchState {
	return watchState{probe: p, name: name, cluster: cluster, synced: make(chan struct{})}
}

// listBegin notes a list. It returns true when the watch was interrupted before it.
func (s *watchState) listBegin() (interrupted bool) {
	s.listed.Begin()
	return s.began
}

// gapEvent says that the watch was interrupted: for how long, and why. What came and went
// meanwhile was not seen.
func (s *watchState) gapEvent(now clock.Time, why string) record.Event {
	if s.cluster != "" {
		why = s.cluster + ": " + why
	}
	return record.Event{At: now, Type: record.EventWatchGap, Name: s.name, Text: why, Detail: record.Detail{For: now.Sub(s.last)}}
}

// listEnd notes that all of a list was shown. All its pages show the state of
// its first, so that nothing is known of what happened while they came: the
// watch is whole until the list was asked for.
func (s *watchState) listEnd() {
	s.last, s.began = max(s.last, s.requestedAt), true
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}

// dateEvent dates an event, and notes it.
func (s *watchState) dateEvent(e watch.Event, uid string) bounded {
	if e.Kind == watch.Listed {
		s.listed.Add(uid)
		return s.dateListed(e.At)
	}
	within := s.probe.uncertaintyOf(s.name, e.Version, e.At)
	s.last = max(s.last, e.At.Add(-within)) // of what came after a change that was held up nothing is known
	return bounded{e.At, within}
}

// noteBookmark notes that all was shown that had happened up to a version.
func (s *watchState) noteBookmark(at clock.Time, version uint64) {
	s.last = max(s.last, s.probe.completeUntil(version, at))
}

// dateListed is the moment of what a list has shown: it came about since the watch was
// last whole.
func (s *watchState) dateListed(at clock.Time) bounded {
	switch {
	case s.began:
		return bounded{at, max(1, at.Sub(s.last))}
	case s.absent > 0:
		return bounded{at, max(1, at.Sub(s.absent))}
	}
	return bounded{at, record.Ever}
}
