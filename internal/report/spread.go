package report

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// Distributions are drawn in buckets whose bounds grow by the same factor:
// twelve per decade tell 10 ms from 12 ms as they tell 10 s from 12 s.
const (
	bucketsPerDecade = 12
	leastBucket      = 1e-5 // seconds; what is shorter lies in bucket 0
	mostBuckets      = 8 * bucketsPerDecade
)

// bucket returns the bucket of a duration: bucket b > 0 holds
// [leastBucket*10^((b-1)/12), leastBucket*10^(b/12)).
func bucket(d time.Duration) int {
	s := d.Seconds()
	if s < leastBucket {
		return 0
	}
	return min(int(math.Floor(math.Log10(s/leastBucket)*bucketsPerDecade+1e-9))+1, mostBuckets)
}

// Spread is a distribution of durations.
type Spread struct {
	Group string `json:"group"`
	Arm   string `json:"arm,omitempty"` // of a comparison
	Phase string `json:"phase"`         // "created to running"
	N     int    `json:"n"`
	Open  int    `json:"open"` // objects that began this and were not seen to end it
	P50   Num    `json:"p50"`  // seconds; so are the others
	P90   Num    `json:"p90"`
	P99   Num    `json:"p99"`
	Max   Num    `json:"max"`
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
	s := Spread{Group: group, Phase: phase, N: all.Len() - all.Censored(), Open: all.Censored()}
	s.P50, s.P90, s.P99, s.Max = s.atRank(all, 0.50), s.atRank(all, 0.90), s.atRank(all, 0.99), s.atRank(all, 1)
	sorted := all.Sorted()
	if len(sorted) == 0 {
		return s
	}
	s.First = bucket(time.Duration(sorted[0]))
	s.Counts = make([]int, bucket(time.Duration(sorted[len(sorted)-1]))-s.First+1)
	for _, d := range sorted {
		s.Counts[bucket(time.Duration(d))-s.First]++
	}
	return s
}

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
