package slo

import (
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/series"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Late is how much later than due a call of the load may be sent before it
// counts as late: package load's bound.
const Late = 100 * time.Millisecond

// Sources of calls, as package record has them in Op.Source.
const (
	sourceLoad  = "load"
	sourceFleet = "fleet"
)

// Facts is what a record stream says, arranged for judging. It is read only
// once collected.
type Facts struct {
	// Begin and End are the run's: the time that is judged. Without their
	// marks they are the stream's first and last moment.
	Begin, End clock.Time
	Ended      record.Event   // without Reason where there is none
	Torn       bool           // the stream was cut off
	LostBytes  int64          // of the cut off end
	Events     []record.Event // all but those of scrapes, in the order of time
	Scrapes    int            // complete ones
	NotScraped map[string]int
	Calls      []*Calls // of the run, by operation, in the order of definition
	Lives      []*Lives // by resource and group, in the order of their first object
	Series     *series.Store

	answers map[Question]Answer // of Ask
}

// Calls sums up the calls of one operation.
type Calls struct {
	record.Op
	Latency  stats.Durations // Done-Due; a call without an answer lasted at least that long
	Service  stats.Durations // Done-Sent, likewise
	Lateness stats.Durations // Sent-Due
	Outcomes [3]int          // by record.Outcome
	Late     int             // sent more than Late after they were due
	Sent     uint64          // bytes of bodies
	Received uint64          // bytes of bodies
	Due      span            // first and last due time
	Answered span            // first and last moment of an answer with outcome OK
}

// Count returns the number of calls.
func (c *Calls) Count() int { return c.Outcomes[0] + c.Outcomes[1] + c.Outcomes[2] }

// span is the first and the last of some moments.
type span struct {
	first, last clock.Time
	any         bool
}

func (s *span) add(t clock.Time) {
	if !s.any {
		*s = span{t, t, true}
	}
	s.first, s.last = min(s.first, t), max(s.last, t)
}

func (s *span) join(o span) {
	if o.any {
		s.add(o.first)
		s.add(o.last)
	}
}

// seconds is the time between the first and the last.
func (s *span) seconds() float64 { return s.last.Sub(s.first).Seconds() }

// collector fills facts while a stream is read.
type collector struct {
	f        *Facts
	stream   *record.Stream
	whole    span
	ended    bool
	begun    bool
	assigned []place // by record.ObjectID
	groups   map[groupKey]*Lives
}

// Collect reads the record stream at path once. A stream that a crash cut off
// is not an error. Its memory is 24 bytes a call, 8 for each phase of a pod and
// 16 a sample.
func Collect(path string) (*Facts, error) {
	c := &collector{
		f:      &Facts{Series: series.NewStore(), NotScraped: map[string]int{}},
		groups: map[groupKey]*Lives{},
	}
	s, err := record.Read(path, func(s *record.Stream) record.Visitor {
		c.stream = s
		v := c.f.Series.Visitor(s)
		sample, mark, scrape := v.Sample, v.Event, v.Scrape
		v.Call, v.Phase = c.call, c.phase
		v.Sample = func(x record.Sample) { c.whole.add(x.At); sample(x) }
		v.Event = func(m record.Event) { c.mark(m); mark(m) }
		v.Scrape = func(x record.Scrape) { c.f.Scrapes++; scrape(x) }
		return v
	})
	if err != nil {
		return nil, err
	}
	c.finish(s)
	return c.f, nil
}

// call takes a call of the run itself: what was sent before its begin or after
// its end (boot, populate, clean up) is not judged.
func (c *collector) call(v record.Call) {
	if c.ended {
		return
	}
	for i := len(c.f.Calls); i <= int(v.Op); i++ {
		c.f.Calls = append(c.f.Calls, &Calls{Op: c.stream.Ops[i]})
	}
	calls := c.f.Calls[v.Op]
	calls.Outcomes[v.Outcome]++
	calls.Sent += uint64(v.SentBytes)
	calls.Received += uint64(v.ReceivedBytes)
	calls.Due.add(v.Due)
	calls.Lateness.Add(v.Lateness())
	if v.Lateness() > Late {
		calls.Late++
	}
	if v.Outcome == record.Unknown {
		calls.Latency.AddBetween(v.Latency(), stats.Forever)
		calls.Service.AddBetween(v.Service(), stats.Forever)
	} else {
		calls.Latency.Add(v.Latency())
		calls.Service.Add(v.Service())
	}
	if v.Outcome == record.OK {
		calls.Answered.add(v.Done)
	}
	c.whole.add(v.Done)
}

func (c *collector) mark(m record.Event) {
	c.whole.add(m.At)
	switch m.Type {
	case record.EventScraped:
		c.f.Scrapes++
		return
	case record.EventScrapeFailed:
		c.f.NotScraped[m.Name]++
		return
	case record.EventRunBegan:
		c.f.Begin, c.begun = m.At, true
		c.f.Calls = nil
	case record.EventRunEnded:
		c.f.End, c.ended = m.At, true
		c.f.Ended = m
	}
	c.f.Events = append(c.f.Events, m)
}

// finish sorts what is to be read by many.
func (c *collector) finish(s *record.Stream) {
	c.f.Torn, c.f.LostBytes = s.Torn, s.LostBytes
	if !c.begun {
		c.f.Begin = c.whole.first
	}
	if !c.ended {
		c.f.End = c.whole.last
	}
	for i := len(c.f.Calls); i < len(s.Ops); i++ { // operations without a call
		c.f.Calls = append(c.f.Calls, &Calls{Op: s.Ops[i]})
	}
	for _, calls := range c.f.Calls { // one after another: while it is sorted a sample takes twice its memory
		var wait sync.WaitGroup
		wait.Go(calls.Latency.Sort)
		wait.Go(calls.Service.Sort)
		wait.Go(calls.Lateness.Sort)
		wait.Wait()
	}
}

// events returns the events of a type.
func (f *Facts) events(kind record.EventType) []record.Event {
	var out []record.Event
	for _, m := range f.Events {
		if m.Type == kind {
			out = append(out, m)
		}
	}
	return out
}
