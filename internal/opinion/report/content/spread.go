package content

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Spread is a distribution of durations.
type Spread struct {
	Group string `json:"group"`
	Arm   string `json:"arm,omitempty"` // of a comparison
	Phase string `json:"phase"`         // "created to running"
	N     int    `json:"n"`             // known exactly
	Open  int    `json:"open"`          // objects that began this and were not seen to end it (right-censored)
	// Bounded is how many are known between two times (interval-censored): their
	// watch was interrupted or late.
	Bounded int `json:"bounded,omitempty"`
	P50     Num `json:"p50"` // seconds; so are the others
	P90     Num `json:"p90"`
	P99     Num `json:"p99"`
	Max     Num `json:"max"`
	// Bounds says of which of p50, p90, p99 and max the value is only a bound:
	// "≤", some were not seen exactly; ">", too many were not seen to end.
	Bounds map[string]string `json:"bounds,omitempty"`
	First  int               `json:"first"`  // number of the first bucket in Counts
	Counts []int             `json:"counts"` // per bucket
}

// newSpread summarises durations. What did not end counts as longer than it was
// seen to last: with enough of them a quantile is only a lower bound, and is
// shown as that.
func newSpread(group, phase string, all *stats.Durations) Spread {
	s := Spread{Group: group, Phase: phase, N: all.Len() - all.Censored(), Open: all.Open(), Bounded: all.Censored() - all.Open()}
	s.P50, s.P90, s.P99, s.Max = s.atRank(all, 0.50), s.atRank(all, 0.90), s.atRank(all, 0.99), s.atRank(all, 1)
	sorted := all.Sorted()
	if len(sorted) == 0 {
		return s
	}
	s.First = run.Bucket(time.Duration(sorted[0]))
	s.Counts = make([]int, run.Bucket(time.Duration(sorted[len(sorted)-1]))-s.First+1)
	for _, d := range sorted {
		s.Counts[run.Bucket(time.Duration(d))-s.First]++
	}
	return s
}

// All is how many objects there were.
func (s Spread) All() int { return s.N + s.Open + s.Bounded }

// atRank is the q-quantile in seconds, NaN when there is no value.
func (s *Spread) atRank(d *stats.Durations, q float64) Num {
	e := d.Quantile(q)
	if e.Samples == 0 {
		return Num(math.NaN())
	}
	if !e.Exact() {
		if s.Bounds == nil {
			s.Bounds = map[string]string{}
		}
		name := stats.Name(q)
		if q == 1 {
			name = "max"
		}
		s.Bounds[name] = "≤"
		if math.IsInf(e.High, 1) {
			s.Bounds[name] = ">"
		}
	}
	return Num(e.Value)
}
