package run

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Waiting says how many of windtunnel's own calls were waiting, from the run's
// begin to its end.
type Waiting struct {
	First clock.Time // due time of the load's first call
	Any   bool       // the load made one
	Last  clock.Time // until then what the load set in motion was not at rest
	Load  Queue
	Fleet Queue
}

// Queue is the time that calls of one source waited, by the second of the run's
// clock: 1 in a second is one call on average.
type Queue struct {
	Overdue  []float64 // due for longer than may be, and not yet sent
	InFlight []float64 // due, and not yet answered
	Late     int       // calls that were sent later than may be
	Calls    int
	Worst    time.Duration // the longest from due to sent
}

func (w *Waiting) add(op record.Op, v record.Call, renewal time.Duration) {
	switch {
	case op.Source == Load:
		if !w.Any || v.Due < w.First {
			w.First, w.Any = v.Due, true
		}
		w.Last = max(w.Last, v.Done)
		w.Load.add(v, Late)
	case op.Source != Fleet || op.Verb == "get" || op.Verb == "list" || op.Verb == "watch":
	case op.Resource == Leases && op.Verb == "update":
		w.Fleet.add(v, renewal)
	default:
		w.Fleet.add(v, Late)
	}
}

func (q *Queue) add(v record.Call, may time.Duration) {
	q.Calls++
	q.Worst = max(q.Worst, v.Lateness())
	spread(&q.InFlight, v.Due, v.Done)
	if v.Lateness() > may {
		q.Late++
		spread(&q.Overdue, v.Due.Add(may), v.Sent)
	}
}

// longest is until when waiting is followed: a week.
const longest = clock.Time(7 * 24 * time.Hour)

// spread adds the time from one moment to another to the seconds it lies in.
func spread(seconds *[]float64, from, to clock.Time) {
	from, to = max(from, 0), min(to, longest)
	for from < to {
		i := int(from / clock.Time(time.Second))
		for len(*seconds) <= i {
			*seconds = append(*seconds, 0)
		}
		next := min(to, clock.Time(i+1)*clock.Time(time.Second))
		(*seconds)[i] += next.Sub(from).Seconds()
		from = next
	}
}
