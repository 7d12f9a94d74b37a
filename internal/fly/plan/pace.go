package plan

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/scenario"
)

// Pace returns the pace that a step says for so many calls (0: as many as time
// allows). times are those of the file that it replays, if it does.
func Pace(p scenario.Pace, count int, seed uint64, times []time.Duration) *pace.Pace {
	out := kindOf(p, count, seed, times)
	if p.Jitter > 0 {
		out = out.Jitter(p.Jitter, seed)
	}
	if p.Bundle > 0 {
		out = out.Bundle(p.Bundle)
	}
	return out
}

func kindOf(p scenario.Pace, count int, seed uint64, times []time.Duration) *pace.Pace {
	switch {
	case p.Constant > 0:
		return pace.Constant(p.Constant)
	case p.Poisson > 0:
		return pace.Poisson(p.Poisson, seed)
	case p.Ramp != nil:
		return pace.Ramp(p.Ramp.From, p.Ramp.To, time.Duration(p.Ramp.Over))
	case len(p.Steps) > 0:
		return stairsPace(p.Steps)
	case p.Closed > 0:
		return pace.Closed(p.Closed)
	case p.Replay != "":
		return pace.Replay(times)
	case p.Within > 0 && p.Random:
		return pace.Scattered(count, time.Duration(p.Within), seed)
	case p.Within > 0:
		return pace.Within(count, time.Duration(p.Within))
	}
	return pace.Burst()
}

// stairsPace is one rate after another; the last one goes on whatever it says.
func stairsPace(list []scenario.Stair) *pace.Pace {
	var out []pace.Step
	for i, s := range list {
		length := time.Duration(s.For)
		if i == len(list)-1 {
			length = max(length, time.Nanosecond)
		}
		out = append(out, pace.Step{Rate: s.Rate, To: s.Rate, For: length})
	}
	return pace.Steps(out...)
}

// topRate is the highest rate of a pace, in calls per second; 0 when it follows
// from the answers, +Inf for a burst.
func topRate(p scenario.Pace, made *pace.Pace) float64 {
	rate := made.Rate()
	switch {
	case p.Closed > 0:
		return 0
	case p.Ramp != nil:
		rate = max(p.Ramp.From, p.Ramp.To)
	case len(p.Steps) > 0:
		rate = slices.MaxFunc(p.Steps, func(a, b scenario.Stair) int { return int(math.Copysign(1, a.Rate-b.Rate)) }).Rate
	default:
		return rate
	}
	return rate * float64(max(1, p.Bundle))
}

// countDue is how many of at most count calls (0: no bound) fall due in a time (0:
// no bound), and when the last of them is.
func countDue(p *pace.Pace, count int, within time.Duration) (calls int, last time.Duration) {
	calls = count
	if n := p.Count(); n > 0 && (calls == 0 || n < calls) {
		calls = n
	}
	if within > 0 {
		bound := calls
		if bound == 0 {
			for bound = 1; bound < math.MaxInt32 && p.Due(bound-1) <= within; {
				bound *= 2
			}
		}
		calls = sort.Search(bound, func(i int) bool { return p.Due(i) > within })
	}
	if calls == 0 {
		return 0, 0
	}
	if last = p.Due(calls - 1); last == pace.Never {
		last = 0
	}
	return calls, last
}
