// Package pace says when calls are due: it maps the number of a call to the
// moment, counted from the begin of its step, at which it ought to be sent.
//
// It is pure: it neither sleeps nor looks at a clock, and it does not know how
// late its callers are. Package load sends what is due.
package pace

import (
	"math"
	"time"
)

// Never is the due time of a call that a pace does not reach.
const Never = time.Duration(math.MaxInt64)

// Pace is a profile of rates over time, with calls at even distances or as a
// Poisson process, or a list of due times. Make one with Constant, Within,
// Poisson, Scattered, Burst, Ramp, Steps, Replay or Closed.
// A Pace is not for concurrent use: Poisson keeps what it has drawn.
type Pace struct {
	burst    bool
	parallel int // of a closed pool
	stages   []stage
	arrivals *arrivals       // nil: even distances
	stretch  float64         // calls for each of the arrivals' units; 0: one
	replay   []time.Duration // due times; when set, nothing above counts
	bundle   int             // calls due at one time; 0: one
	jitter   *jitter         // nil: none
}

// Constant is calls at even distances, rate in calls per second. The first is
// due at once. At a rate of 0 or less nothing else ever is.
func Constant(rate float64) *Pace { return &Pace{stages: []stage{{from: rate, to: rate}}} }

// Burst is all calls at once.
func Burst() *Pace { return &Pace{burst: true} }

// Within is count calls at even distances over a window: the first is due at
// once, the last one distance before the window's end.
func Within(count int, window time.Duration) *Pace {
	if window <= 0 || count <= 0 {
		return Burst()
	}
	return Constant(float64(count) / window.Seconds())
}

// Closed is so many calls at a time, each next one when another ended. Such
// calls have no due times: Due is always 0, and Parallel says how many.
func Closed(parallel int) *Pace { return &Pace{burst: true, parallel: max(1, parallel)} }

// Parallel returns how many calls a closed pool has at a time; 0 for every
// other pace.
func (p *Pace) Parallel() int { return p.parallel }

// Poisson is calls that know nothing of each other: their distances are
// exponentially distributed with mean 1/rate. The same seed gives the same
// due times.
func Poisson(rate float64, seed uint64) *Pace { return Constant(rate).Random(seed) }

// Ramp is a rate that goes evenly from one value to another over a time, and
// then stays. Rates are in calls per second.
func Ramp(from, to float64, over time.Duration) *Pace {
	return &Pace{stages: layStages([]Step{{Rate: from, To: to, For: over}})}
}

// Step is a stretch of time: its rate at its begin and at its end, in calls per
// second.
type Step struct {
	Rate float64
	To   float64 // same as Rate for a constant step
	For  time.Duration
}

// Steps is one rate after another. After the last step its final rate stays.
func Steps(steps ...Step) *Pace { return &Pace{stages: layStages(steps)} }

// Random returns the pace with the same rates as a Poisson process (an
// inhomogeneous one where the rate changes).
func (p *Pace) Random(seed uint64) *Pace {
	q := *p
	q.arrivals = newArrivals(seed)
	return &q
}

// Due returns when call i is due, i from 0, counted from the begin of the step.
// Due times never go back. They are computed from i and not added up, so that
// no error grows; Never when the pace does not come so far.
func (p *Pace) Due(i int) time.Duration {
	if p.bundle > 1 {
		i /= p.bundle
	}
	if p.jitter == nil {
		return p.dueWithoutBundles(i)
	}
	return p.jitter.moveDue(i, p.dueWithoutBundles)
}

// dueWithoutBundles is Due without bundles and jitter.
func (p *Pace) dueWithoutBundles(i int) time.Duration {
	switch {
	case p.burst:
		return 0
	case p.replay != nil:
		return replayedTime(p.replay, i)
	}
	n := float64(i)
	if p.arrivals != nil {
		n = p.arrivals.timeOf(i)
		if p.stretch > 0 {
			n *= p.stretch
		}
	}
	for k := len(p.stages) - 1; k > 0; k-- {
		if s := p.stages[k]; n >= s.before {
			return s.dueInStage(n)
		}
	}
	return p.stages[0].dueInStage(n)
}

// Rate returns the mean rate that is asked for, in calls per second: over all
// steps or recorded times, or for ever where there is but one rate. +Inf for a
// burst and for a closed pool.
func (p *Pace) Rate() float64 { return p.rateWithoutBundles() * float64(max(1, p.bundle)) }

// rateWithoutBundles is Rate without bundles.
func (p *Pace) rateWithoutBundles() float64 {
	switch {
	case p.burst:
		return math.Inf(1)
	case p.replay != nil:
		return meanRate(p.replay)
	}
	last := p.stages[len(p.stages)-1]
	if last.start == 0 {
		return last.from
	}
	return last.before / last.start
}

// stage is a stretch of a pace: a rate that goes evenly from one value to
// another. The last one has no end and one rate.
type stage struct {
	start    float64 // seconds from the begin of the step
	length   float64 // seconds; 0 = no end
	from, to float64 // calls per second
	before   float64 // calls due before it
}

// layStages puts steps behind each other and ends with the last one's final rate.
func layStages(steps []Step) []stage {
	var out []stage
	start, before, rate := 0.0, 0.0, 0.0
	for _, s := range steps {
		rate = s.To
		if length := s.For.Seconds(); length > 0 {
			out = append(out, stage{start, length, s.Rate, s.To, before})
			start, before = start+length, before+length*(s.Rate+s.To)/2
		}
	}
	return append(out, stage{start: start, from: rate, to: rate, before: before})
}

// dueInStage returns when the n-th call of the whole pace is due, by this stage.
//
// With a rate of from + k t, the calls due until t are n = from t + k t²/2;
// solved for t in the form that loses no digits when k is small.
func (s stage) dueInStage(n float64) time.Duration {
	n -= s.before
	if n <= 0 {
		return toDuration(s.start)
	}
	k := 0.0
	if s.length > 0 {
		k = (s.to - s.from) / s.length
	}
	t := 2 * n / (s.from + math.Sqrt(max(0, s.from*s.from+2*k*n)))
	if s.length > 0 {
		t = min(t, s.length)
	}
	return toDuration(s.start + t)
}

// toDuration turns seconds into a duration; what does not fit is Never.
func toDuration(seconds float64) time.Duration {
	if ns := seconds * 1e9; ns >= 0 && ns < math.MaxInt64 {
		return time.Duration(math.Round(ns))
	}
	return Never
}
