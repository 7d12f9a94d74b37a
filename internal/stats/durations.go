package stats

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// Durations is a sample of durations. It keeps every value exactly, 4 bytes each
// (8 where it is 4.3 s or more): ten million latencies take 40 MB, are sorted in a
// tenth of a second, and need no explanation of a sketch's error. The zero value
// is an empty sample. It is filled by one goroutine; once sorted (Sort) it may be
// read by many.
type Durations struct {
	chunks   [][]uint32 // nanoseconds, filled one after another: growing by copying would double the peak
	short    []uint32   // all of the chunks' values, ascending, once sorted
	long     []int64    // the values that are below 0 or do not fit, ascending, once sorted
	negative int        // how many of long are below 0, once sorted
	n        int        // values that are known
	censored []bounds   // the others
	lows     []int64    // least of the censored ones, ascending, once sorted
	highs    []int64    // most of those that are bounded, ascending, once sorted
	sum      float64    // of the known ones, seconds
	isSorted bool
}

// bounds are those of a value that is known to lie between two others.
type bounds struct{ lo, hi int64 }

// Forever is the upper end of a duration that nothing bounds.
const Forever = time.Duration(math.MaxInt64)

const chunkLen = 1 << 16

// Add adds a duration that is known.
func (d *Durations) Add(v time.Duration) {
	d.n++
	d.sum += v.Seconds()
	d.isSorted = false
	if v < 0 || v > math.MaxUint32 {
		d.long = append(d.long, int64(v))
		return
	}
	last := len(d.chunks) - 1
	if last < 0 || len(d.chunks[last]) == chunkLen {
		d.chunks = append(d.chunks, nil)
		last++
		if last > 0 { // a big sample: no more small steps
			d.chunks[last] = make([]uint32, 0, chunkLen)
		}
	}
	d.chunks[last] = append(d.chunks[last], uint32(v))
}

// AddBetween adds a censored duration, which is only known to lie between lo and
// hi: right-censored where hi is Forever, as a call without an answer or a pod that
// did not run yet; else interval-censored, as a phase that was reached while
// nobody looked. A quantile that it has a part in is known only within bounds.
func (d *Durations) AddBetween(lo, hi time.Duration) {
	d.censored = append(d.censored, bounds{int64(lo), int64(max(lo, hi))})
	d.isSorted = false
}

// Merge adds all values of the others.
func (d *Durations) Merge(others ...*Durations) {
	for _, o := range others {
		for v := range o.eachKnown {
			d.Add(time.Duration(v))
		}
		d.censored = append(d.censored, o.censored...)
	}
	d.isSorted = false
}

// Merged returns one sorted sample of all values; a single sample is not copied.
func Merged(parts []*Durations) *Durations {
	if len(parts) == 1 {
		return parts[0]
	}
	out := &Durations{}
	out.Merge(parts...)
	out.Sort()
	return out
}

// eachKnown yields the values that are known exactly: ascending once sorted, else in
// any order.
func (d *Durations) eachKnown(yield func(int64) bool) {
	if d.isSorted {
		for i := range d.n {
			if !yield(d.valueAt(i)) {
				return
			}
		}
		return
	}
	for _, c := range append([][]uint32{d.short}, d.chunks...) {
		for _, v := range c {
			if !yield(int64(v)) {
				return
			}
		}
	}
	for _, v := range d.long {
		if !yield(v) {
			return
		}
	}
}

// valueAt is the i-th of the known values, ascending, of a sorted sample.
func (d *Durations) valueAt(i int) int64 {
	switch {
	case i < d.negative:
		return d.long[i]
	case i < d.negative+len(d.short):
		return int64(d.short[i-d.negative])
	}
	return d.long[i-len(d.short)]
}

// Len returns how many values there are, known exactly or not.
func (d *Durations) Len() int { return d.n + len(d.censored) }

// Censored returns how many values are known only within bounds.
func (d *Durations) Censored() int { return len(d.censored) }

// Open returns how many values nothing bounds from above (right-censored).
func (d *Durations) Open() (n int) {
	for _, v := range d.censored {
		if v.hi == int64(Forever) {
			n++
		}
	}
	return n
}

// Sort orders the sample; every statistic does it by itself where needed.
func (d *Durations) Sort() {
	if d.isSorted {
		return
	}
	d.sortShort()
	slices.Sort(d.long)
	d.negative = sort.Search(len(d.long), func(i int) bool { return d.long[i] >= 0 })
	d.lows, d.highs = d.lows[:0], d.highs[:0]
	for _, v := range d.censored {
		d.lows = append(d.lows, v.lo)
		if v.hi < int64(Forever) {
			d.highs = append(d.highs, v.hi)
		}
	}
	slices.Sort(d.lows)
	slices.Sort(d.highs)
	d.isSorted = true
}

// sortShort brings the chunks' values into one ascending list.
func (d *Durations) sortShort() {
	if len(d.chunks) == 1 && len(d.short) == 0 {
		d.short = d.chunks[0]
	} else if len(d.chunks) > 0 {
		d.short = slices.Grow(d.short, d.n-len(d.long)-len(d.short))
		for i, c := range d.chunks {
			d.short = append(d.short, c...)
			d.chunks[i] = nil
		}
	}
	d.chunks = nil
	sortUint32(d.short)
}

// manyValues is from how many on counting digits is faster than comparing.
const manyValues = 1 << 12

// sortUint32 sorts numbers, many of them digit by digit (LSD radix sort; D. Knuth,
// The Art of Computer Programming 3, 5.2.5).
func sortUint32(v []uint32) {
	if len(v) < manyValues {
		slices.Sort(v)
		return
	}
	const bits, digits = 11, 1 << 11
	from, to := v, make([]uint32, len(v))
	for shift := 0; shift < 32; shift += bits {
		var count [digits]int
		for _, x := range from {
			count[x>>shift&(digits-1)]++
		}
		if count[from[0]>>shift&(digits-1)] == len(from) {
			continue // all have this digit
		}
		place := 0
		for i, n := range count {
			count[i], place = place, place+n
		}
		for _, x := range from {
			i := x >> shift & (digits - 1)
			to[count[i]] = x
			count[i]++
		}
		from, to = to, from
	}
	if &from[0] != &v[0] {
		copy(v, from)
	}
}

// Sorted returns the values that are known exactly in ascending order.
func (d *Durations) Sorted() []int64 {
	d.Sort()
	return slices.Collect(d.eachKnown)
}

// Quantile returns the q-quantile in seconds (see Rank for its definition).
// Where censored values have a part in it, Low takes them all at their least and
// High at their most; Value is High, or Low where nothing bounds High. These
// bounds hold whatever the source; an estimate of its distribution, as E. L. Kaplan
// and P. Meier (Journal of the American Statistical Association 53 (1958), 457-481)
// have it for right-censored and B. W. Turnbull (Journal of the Royal Statistical
// Society B 38 (1976), 290-295) for interval-censored values, takes censoring to be
// independent of length, which that of a plane that gives way is not. An empty sample gives the zero Estimate.
func (d *Durations) Quantile(q float64) Estimate {
	n := d.Len()
	if n == 0 {
		return Estimate{}
	}
	d.Sort()
	k := Rank(n, q)
	e := Estimate{Low: d.kthLow(k), High: d.kthHigh(k), Samples: n}
	e.Value = e.High
	if math.IsInf(e.High, 1) {
		e.Value = e.Low
	}
	d.setInterval(&e, q)
	if !e.Exact() {
		e.addWarning("%d of %s known only within bounds: the %s lies %s", len(d.censored), countSamples(n), Name(q), e.describeRange())
	}
	return e
}

// setInterval sets the estimate's confidence interval and says what is wrong with it.
func (d *Durations) setInterval(e *Estimate, q float64) {
	lo, hi := Interval(e.Samples, q, Confidence)
	e.Interval = [2]float64{math.Inf(-1), math.Inf(1)}
	if lo >= 1 {
		e.Interval[0] = d.kthLow(lo)
	}
	if hi <= e.Samples {
		e.Interval[1] = d.kthHigh(hi)
		return
	}
	// Too few values to bound it from above; all 5 % then go to the other side.
	if one, _ := Interval(e.Samples, q, 2*Confidence-1); one >= 1 {
		e.Interval[0] = d.kthLow(one)
	}
	if Rank(e.Samples, q) == e.Samples {
		e.addWarning("only %s: the %s is the largest value", countSamples(e.Samples), Name(q))
		return
	}
	e.addWarning("only %s: too few for an upper end of the 95 %% interval of the %s", countSamples(e.Samples), Name(q))
}

// kthLow is the k-th value in seconds if all are at their least.
func (d *Durations) kthLow(k int) float64 {
	return toSeconds(d.kthWith(d.lows, k))
}

// kthHigh is the k-th value in seconds if all are at their most.
func (d *Durations) kthHigh(k int) float64 {
	if k > d.n+len(d.highs) {
		return math.Inf(1)
	}
	return toSeconds(d.kthWith(d.highs, k))
}

// kthWith is the k-th of the known values and an ascending list together, from 1.
func (d *Durations) kthWith(b []int64, k int) int64 {
	low := max(0, k-len(b)) // of the known values that are among the first k
	n := low + sort.Search(min(k, d.n)-low, func(i int) bool {
		i += low
		return d.valueAt(i) >= b[k-i-1]
	})
	switch {
	case n == 0:
		return b[k-1]
	case n == k:
		return d.valueAt(k - 1)
	}
	return max(d.valueAt(n-1), b[k-n-1])
}

// describeRange says in words where an inexact value lies.
func (e Estimate) describeRange() string {
	if math.IsInf(e.High, 1) {
		return fmt.Sprintf("above %.4g", e.Low)
	}
	return fmt.Sprintf("between %.4g and %.4g", e.Low, e.High)
}

// Max returns the largest value in seconds; it has no interval.
func (d *Durations) Max() Estimate {
	e := d.Quantile(1)
	e.Interval = [2]float64{math.Inf(-1), math.Inf(1)}
	if e.Exact() {
		e.Warnings = nil
	}
	return e
}

// Mean returns the mean in seconds with its interval by the normal
// approximation, mean +- 1.96 s/sqrt(n), which needs some dozens of values of
// a distribution that is not too skewed; a warning says when there are fewer.
func (d *Durations) Mean() Estimate {
	n := d.Len()
	if n == 0 {
		return Estimate{}
	}
	low, high := d.sum, d.sum
	for _, v := range d.censored {
		low += toSeconds(v.lo)
		if v.hi == int64(Forever) {
			high = math.Inf(1)
		}
		high += toSeconds(v.hi)
	}
	e := Estimate{Low: low / float64(n), High: high / float64(n), Samples: n}
	e.Value = e.High
	e.Interval = [2]float64{math.Inf(-1), math.Inf(1)}
	if math.IsInf(e.High, 1) {
		e.Value = e.Low
	}
	if !e.Exact() {
		e.addWarning("%d of %s known only within bounds: the mean lies %s", len(d.censored), countSamples(n), e.describeRange())
		return e
	}
	if n < 30 {
		e.addWarning("only %s: too few for an interval of the mean", countSamples(n))
		return e
	}
	var squares float64
	for v := range d.eachKnown {
		squares += (toSeconds(v) - e.Value) * (toSeconds(v) - e.Value)
	}
	half := 1.959963984540054 * math.Sqrt(squares/float64(n-1)/float64(n))
	e.Interval = [2]float64{e.Value - half, e.Value + half}
	return e
}

func toSeconds(v int64) float64 { return float64(v) / 1e9 }
