package lifecycle

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// moment is when something was seen, and how long before it may have happened.
type moment struct {
	at     clock.Time
	within time.Duration
}

// sight is what a watch of one resource has shown so far: it dates what it
// shows next. Its methods are called under the lock of the lives that it is for.
type sight struct {
	pulse  *Pulse
	name   string               // of the resource, for marks
	last   clock.Time           // the watch was whole until then: nothing before is unknown
	began  bool                 // a first list was read
	asked  clock.Time           // when the last list was asked for
	absent clock.Time           // the resource was not served then; 0: nobody knows
	listed watch.Relist[string] // by UID
	synced chan struct{}
}

func newSight(name string, p *Pulse) sight {
	return sight{pulse: p, name: name, synced: make(chan struct{})}
}

// listBegin notes a list. It returns true when the watch was torn before it.
func (s *sight) listBegin() (torn bool) {
	s.listed.Begin()
	return s.began
}

// interrupted says that the watch was: for how long, and why. What came and went
// meanwhile was not seen.
func (s *sight) interrupted(now clock.Time, why string) record.Event {
	return record.Event{At: now, Type: record.EventWatchGap, Name: s.name, Text: why, Detail: record.Detail{For: now.Sub(s.last)}}
}

// listEnd notes that all of a list was shown. All its pages show the state of
// its first, so that nothing is known of what happened while they came: the
// watch is whole until the list was asked for.
func (s *sight) listEnd() {
	s.last, s.began = max(s.last, s.asked), true
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}

// event dates an event, and notes it.
func (s *sight) event(e watch.Event, uid string) moment {
	if e.Kind == watch.Listed {
		s.listed.Add(uid)
		return s.gap(e.At)
	}
	within := s.pulse.within(s.name, e.Version, e.At)
	s.last = max(s.last, e.At.Add(-within)) // of what came after a change that was held up nothing is known
	return moment{e.At, within}
}

// bookmark notes that all was shown that had happened up to a version.
func (s *sight) bookmark(at clock.Time, version uint64) {
	s.last = max(s.last, s.pulse.whole(version, at))
}

// gap is the moment of what a list has shown: it came about since the watch was
// last whole.
func (s *sight) gap(at clock.Time) moment {
	switch {
	case s.began:
		return moment{at, max(1, at.Sub(s.last))}
	case s.absent > 0:
		return moment{at, max(1, at.Sub(s.absent))}
	}
	return moment{at, record.Ever}
}
