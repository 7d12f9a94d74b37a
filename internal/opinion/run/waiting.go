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
	Late  int // calls that were sent later than may be
	Calls int
	Worst time.Duration // the longest from due to sent

	overdue, inFlight track
}

// Overdue is the time that calls were due for longer than may be, and not yet sent.
func (q *Queue) Overdue() []float64 { return q.overdue.perSecond() }

// InFlight is the time that calls were due, and not yet answered.
func (q *Queue) InFlight() []float64 { return q.inFlight.perSecond() }

func (w *Waiting) addCall(op record.Op, v record.Call, renewal time.Duration) {
	switch {
	case op.Source == Load:
		if !w.Any || v.Due < w.First {
			w.First, w.Any = v.Due, true
		}
		w.Last = max(w.Last, v.Done)
		w.Load.addCall(v, record.Late)
	case op.Source != Fleet || op.Verb == "get" || op.Verb == "list" || op.Verb == "watch":
	case op.Resource == Leases && op.Verb == "update":
		w.Fleet.addCall(v, renewal)
	default:
		w.Fleet.addCall(v, record.Late)
	}
}

func (q *Queue) addCall(v record.Call, may time.Duration) {
	q.Calls++
	q.Worst = max(q.Worst, v.Lateness())
	q.inFlight.addSpan(v.Due, v.Done)
	if v.Lateness() > may {
		q.Late++
		q.overdue.addSpan(v.Due.Add(v.Throttled+may), v.Sent)
	}
}

// maxTracked is until when waiting is followed: a week.
const maxTracked = clock.Time(7 * 24 * time.Hour)

// track adds up stretches of time by the seconds they lie in. A stretch covers two
// seconds in part and those between them wholly, however many there are: whole has
// the change of their number at each second.
type track struct{ part, whole []float64 }

func (t *track) addSpan(from, to clock.Time) {
	from, to = max(from, 0), min(to, maxTracked)
	if from >= to {
		return
	}
	const second = clock.Time(time.Second)
	i, j := int(from/second), int(to/second)
	if more := j + 2 - len(t.part); more > 0 {
		t.part, t.whole = append(t.part, make([]float64, more)...), append(t.whole, make([]float64, more)...)
	}
	if i == j {
		t.part[i] += to.Sub(from).Seconds()
		return
	}
	t.part[i] += (clock.Time(i+1) * second).Sub(from).Seconds()
	t.part[j] += to.Sub(clock.Time(j) * second).Seconds()
	t.whole[i+1]++
	t.whole[j]--
}

func (t *track) perSecond() []float64 {
	out := make([]float64, len(t.part))
	there := 0.0
	for i := range out {
		there += t.whole[i]
		out[i] = there + t.part[i]
	}
	return out
}
