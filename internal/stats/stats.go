// Package stats is the only door to statistics: quantiles of raw samples and
// of histograms, and how far they can be trusted. Every number comes with its
// sample count, an interval and warnings (rule of measurement 5).
//
// It knows nothing of calls, pods or verdicts, nor what its values mean.
package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Confidence is the level of every interval of this package.
const Confidence = 0.95

// Few is the sample size below which a 99th percentile is hardly more than
// the largest value, which a warning then says.
const Few = 100

// Estimate is a statistic and what is known about it. Values are in the unit
// of the samples; durations are in seconds.
type Estimate struct {
	Value float64
	// Low and High bound the statistic of the sample itself. They are equal
	// when every value of the sample is known exactly. They differ by a
	// histogram's bucket, or when values of the sample had not ended when they
	// were looked at; High is then +Inf where nothing bounds it.
	Low, High float64
	// Interval is the confidence interval of the statistic of whatever the
	// sample was drawn from; an end that the sample is too small to give is
	// -Inf or +Inf. It takes the values to be independent, which calls that
	// queue behind each other are not: it is then too narrow.
	Interval [2]float64
	Samples  int
	Warnings []string
}

// Bounded reports whether both ends of the interval are known.
func (e Estimate) Bounded() bool {
	return e.Samples > 0 && !math.IsInf(e.Interval[0], 0) && !math.IsInf(e.Interval[1], 0)
}

// Exact reports whether the statistic of the sample is known exactly.
func (e Estimate) Exact() bool { return e.Low == e.High }

func (e *Estimate) addWarning(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// Rank returns which of n ordered values, counted from 1, is their q-quantile:
// the smallest value that at least a share q of the sample does not exceed,
// ceil(nq). This is the inverse of the empirical distribution function,
// definition 1 of Hyndman and Fan, Sample Quantiles in Statistical Packages,
// The American Statistician 50 (1996), 361-365. It interpolates nothing, so
// that a quantile is a value that was measured, and values that are known
// only to be large (they had not ended) need no invented size.
// n must be positive; q lies in [0, 1].
func Rank(n int, q float64) int {
	x := float64(n) * q
	// 0.999 and its like are not exact in binary: a product that is an integer
	// but for rounding must not fall on the next value.
	if r := math.Round(x); math.Abs(x-r) <= 1e-12*float64(n) {
		x = r
	}
	return min(max(int(math.Ceil(x)), 1), n)
}

// Interval returns the ranks, counted from 1, of the ordered values between
// which the q-quantile of the source of n independent values lies with at
// least the given confidence, whatever its distribution. A rank of 0 or n+1
// says that the sample is too small to bound that side.
//
// The number of values that do not exceed the true quantile is binomial (n, q);
// each side leaves out at most half of what the confidence leaves over. See
// H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
func Interval(n int, q, confidence float64) (lo, hi int) {
	half := (1 - confidence) / 2
	// Low side: the largest rank l with P(B <= l-1) <= half.
	lo = lastWhere(n, func(l int) bool { return atMost(n, q, l-1) <= half })
	// High side: the smallest rank u with P(B >= u) <= half, that is one more
	// than the largest with P(B >= u) > half.
	hi = lastWhere(n, func(u int) bool { return atLeast(n, q, u) > half }) + 1
	return lo, hi
}

// lastWhere returns the largest k of 1..n for which ok holds, 0 if none; ok
// holds up to some k and not beyond.
func lastWhere(n int, ok func(int) bool) int {
	lo, hi := 0, n
	for lo < hi {
		mid := hi - (hi-lo)/2
		if ok(mid) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// MoreThan tells whether k of n are more than a share, with 95 % confidence: so many
// would be rarer than one time in twenty if the share were no more.
func MoreThan(share float64, k, n int) bool {
	return float64(k) > share*float64(n) && atLeast(n, share, k) < 1-Confidence
}

// atLeast is P(B >= k) for B binomial (n, p), by the regularised incomplete
// beta function (NIST Digital Library of Mathematical Functions, 8.17.5).
func atLeast(n int, p float64, k int) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n, p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// atMost is P(B <= k), computed without the cancellation of 1-atLeast.
func atMost(n int, p float64, k int) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n, p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
