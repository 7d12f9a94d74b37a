package stats

import (
	"fmt"
	"math"
	"strconv"
)

// Bucket is a bucket of a cumulative histogram: how many values were at most UpTo.
type Bucket struct{ UpTo, Count float64 }

// Histogram is a cumulative histogram as Prometheus has it: buckets ascending
// by UpTo, the last of them +Inf and with the count of all values.
type Histogram []Bucket

// Count returns the number of values.
func (h Histogram) Count() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Count
}

// Quantile returns the q-quantile. Low and High are the bucket that holds it,
// which is all that a histogram knows: the quantile is more than Low and at
// most High. Value is Prometheus's linear interpolation within the bucket
// (histogram_quantile in its documentation, querying/functions): the
// first bucket begins at 0, and in the last one Value is its lower end.
// Interval is the span of the buckets that hold the ends of the confidence
// interval. An empty histogram gives the zero Estimate.
func (h Histogram) Quantile(q float64) Estimate {
	n := int(math.Round(h.Count()))
	if n <= 0 {
		return Estimate{}
	}
	e := Estimate{Samples: n, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	at := h.bucketHolding(float64(Rank(n, q)))
	e.Low, e.High = h.bucketBounds(at)
	e.Value = h.interpolateIn(at, q*h.Count())
	lo, hi := Interval(n, q, Confidence)
	if lo >= 1 {
		e.Interval[0], _ = h.bucketBounds(h.bucketHolding(float64(lo)))
	}
	if hi <= n {
		_, e.Interval[1] = h.bucketBounds(h.bucketHolding(float64(hi)))
	}
	if n < Few && q >= 0.99 {
		e.addWarning("only %s: the %s is hardly more than the largest value", countSamples(n), Name(q))
	}
	if math.IsInf(e.High, 1) {
		e.addWarning("the %s lies above the histogram's last bound %s", Name(q), formatNumber(e.Low))
	}
	return e
}

// bucketHolding returns the index of the bucket that holds the value of this rank.
func (h Histogram) bucketHolding(rank float64) int {
	for i, b := range h {
		if b.Count >= rank {
			return i
		}
	}
	return len(h) - 1
}

func (h Histogram) bucketBounds(i int) (lo, hi float64) {
	if i == 0 {
		return math.Min(0, h[0].UpTo), h[0].UpTo
	}
	return h[i-1].UpTo, h[i].UpTo
}

func (h Histogram) interpolateIn(i int, rank float64) float64 {
	lo, hi := h.bucketBounds(i)
	if math.IsInf(hi, 1) {
		return lo
	}
	below := 0.0
	if i > 0 {
		below = h[i-1].Count
	}
	in := h[i].Count - below
	if in <= 0 {
		return hi
	}
	return lo + (hi-lo)*math.Min(math.Max((rank-below)/in, 0), 1)
}

// Mended returns the histogram with counts that never fall from bucket to
// bucket, as differences of buckets that were not read at one moment may. It
// also says by how much at most a count was raised.
func (h Histogram) Mended() (Histogram, float64) {
	out, highest, raised := make(Histogram, len(h)), 0.0, 0.0
	for i, b := range h {
		if b.Count < highest {
			raised = math.Max(raised, highest-b.Count)
			b.Count = highest
		}
		highest = b.Count
		out[i] = b
	}
	return out, raised
}

// Name returns a quantile's name: p50, p99, p99.9.
func Name(q float64) string { return "p" + strconv.FormatFloat(math.Round(q*1e8)/1e6, 'f', -1, 64) }

// Parse returns the quantile of a name such as p50 or p99.9; ok is false for
// another text.
func Parse(name string) (q float64, ok bool) {
	if len(name) < 2 || name[0] != 'p' || name[1] < '0' || name[1] > '9' {
		return 0, false
	}
	v, err := strconv.ParseFloat(name[1:], 64)
	if err != nil || !(v > 0 && v <= 100) {
		return 0, false
	}
	return v / 100, true
}

func formatNumber(v float64) string { return fmt.Sprintf("%g", v) }

func countSamples(n int) string {
	if n == 1 {
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", n)
}
