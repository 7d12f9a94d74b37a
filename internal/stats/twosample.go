package stats

import (
	"math"
	"slices"
	"sort"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Median returns the median, the mean of the two middle values where their
// number is even, with its interval by order statistics (see Interval). Fewer
// than six values leave the interval open, which a warning says.
func Median(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	s := slices.Sorted(slices.Values(values))
	e := Estimate{Value: (s[(n-1)/2] + s[n/2]) / 2, Samples: n, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	e.Low, e.High = e.Value, e.Value
	if lo, hi := Interval(n, 0.5, Confidence); lo >= 1 && hi <= n {
		e.Interval = [2]float64{s[lo-1], s[hi-1]}
	} else {
		e.addWarning("only %s: too few for a 95 %% interval of the median", countSamples(n))
	}
	return e
}

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test: how
// often two samples of one source would differ in rank by as much as these. It
// takes no shape of distribution, and is exact for samples of up to 25 values,
// ties included. Samples that are all one value, or empty, give 1.
func MannWhitney(a, b []float64) float64 {
	none := &benchmath.Thresholds{CompareAlpha: 1 - Confidence}
	return benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(a), none), benchmath.NewSample(slices.Clone(b), none)).P
}

// Ratio returns by what factor the source of b is larger than that of a: the
// median of all ratios between a value of b and one of a, after Hodges and
// Lehmann, Estimates of location based on rank tests, Annals of Mathematical
// Statistics 34 (1963), 598-611. The interval holds every factor that the
// Mann-Whitney test at 5 % would not reject (Lehmann, Nonparametrics, section
// 2.6): it is exact for any distribution if b is like a but for a factor. Fewer
// than four values a side leave it open. All values must be positive.
func Ratio(a, b []float64) Estimate {
	var logs []float64
	for _, x := range a {
		for _, y := range b {
			logs = append(logs, math.Log(y/x))
		}
	}
	slices.Sort(logs)
	n := len(logs)
	if n == 0 {
		return Estimate{}
	}
	e := Estimate{Value: math.Exp((logs[(n-1)/2] + logs[n/2]) / 2), Samples: min(len(a), len(b)), Interval: [2]float64{0, math.Inf(1)}}
	e.Low, e.High = e.Value, e.Value
	k := countRejected(len(a), len(b), (1-Confidence)/2)
	if k == 0 {
		e.addWarning("only %d and %d values: too few for a 95 %% interval of their ratio", len(a), len(b))
		return e
	}
	e.Interval = [2]float64{math.Exp(logs[k-1]), math.Exp(logs[n-k])}
	return e
}

// countRejected returns how many values of U, from 0 up, together have at most this
// probability when both samples are of one source.
func countRejected(n, m int, tail float64) int {
	if n*m > 2500 { // by the normal distribution: the exact one takes long and differs in nothing
		sd := math.Sqrt(float64(n) * float64(m) * float64(n+m+1) / 12)
		return max(0, int(math.Floor(float64(n*m)/2+distuv.UnitNormal.Quantile(tail)*sd)))
	}
	ways := uCounts(n, m)
	all := binomialCoefficient(n+m, n)
	sum := 0.0
	for u, w := range ways {
		if sum += w; sum/all > tail*(1+1e-9) {
			return u
		}
	}
	return len(ways)
}

// uCounts returns how many of the ways to rank n and m values without ties
// give each U: the coefficients of the Gaussian binomial, built by multiplying
// with (1-q^(n+i)) and dividing by (1-q^i) for each i.
func uCounts(n, m int) []float64 {
	ways := make([]float64, n*m+1)
	ways[0] = 1
	for i := 1; i <= m; i++ {
		for u := n * m; u >= n+i; u-- {
			ways[u] -= ways[u-n-i]
		}
		for u := i; u <= n*m; u++ {
			ways[u] += ways[u-i]
		}
	}
	return ways
}

// binomialCoefficient is how many ways there are to take k of n.
func binomialCoefficient(n, k int) float64 {
	return math.Round(math.Exp(-math.Log(float64(n+1)) - mathext.Lbeta(float64(n-k+1), float64(k+1))))
}

// Spread returns the standard deviation of the values' logarithms within both
// samples: near enough their coefficient of variation. It is 0 where there are
// fewer than three values or one is not positive.
func Spread(a, b []float64) float64 {
	squares, n := 0.0, 0
	for _, values := range [][]float64{a, b} {
		mean := 0.0
		for _, v := range values {
			if v <= 0 {
				return 0
			}
			mean += math.Log(v) / float64(len(values))
		}
		for _, v := range values {
			squares += (math.Log(v) - mean) * (math.Log(v) - mean)
		}
		n += len(values)
	}
	if n < 3 {
		return 0
	}
	return math.Sqrt(squares / float64(n-2))
}

// Power says with what chance a difference is to be found.
const Power = 0.8

// Visible returns the least effect, as a share (0.1 is 10 %), that n runs a
// side show with a chance of Power, where runs spread by this share and a
// difference is believed at this level. It is infinite where so few
// runs cannot show anything. The formula is that of the two-sample t-test.
func Visible(n int, spread, level float64) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(2*n - 2)}
	return math.Expm1((t.Quantile(1-level/2) + t.Quantile(Power)) * spread * math.Sqrt(2/float64(n)))
}

// MaxRuns is the largest number of runs that Runs advises.
const MaxRuns = 1000

// Runs returns how many runs a side show an effect, as a share, with a chance
// of Power; MaxRuns stands for that many or more.
func Runs(effect, spread, level float64) int {
	minRuns := MinRuns(1 - Confidence)
	more := sort.Search(MaxRuns-minRuns, func(i int) bool { return Visible(minRuns+i, spread, level) <= effect })
	return minRuns + more
}

// MinRuns returns how many runs a side a test needs that only counts
// arrangements of the runs, before it can show anything at all at this level.
func MinRuns(level float64) int {
	n := 1
	for 2/binomialCoefficient(2*n, n) > level {
		n++
	}
	return n
}
