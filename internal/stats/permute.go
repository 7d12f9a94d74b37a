package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Rearrangements is how many arrangements of the runs Permute looks at where
// there are more than that; with fewer it takes all of them.
const Rearrangements = 20000

// Permute tests many measures of the same runs at once and returns the p-value
// of each, corrected for their number: the chance that any of them shows a
// difference as large, measured in its own spread, when none differs. The
// values of a measure are those of the a first runs, then those of the others.
//
// It rearranges whole runs between the two sides and keeps the largest
// difference of each arrangement, stepping down from the clearest measure:
// P. H. Westfall and S. S. Young, Resampling-Based Multiple Testing (1993),
// algorithm 2.8. It takes nothing for granted but that runs may be exchanged when
// the sides do not differ. Measures that move together, such as percentiles of
// one latency, cost little, and unlike a correction of rank tests one by one
// it can tell with few runs and many measures: 5 runs a side always could. An
// outlier does not hide what the others show: values are winsorised about the
// median of all runs, which as a function of all runs together takes nothing from
// the test's level. A measure that is the same in
// all runs has p-value 1.
func Permute(a int, measures [][]float64, seed uint64) []float64 {
	p := make([]float64, len(measures))
	if len(measures) == 0 {
		return p
	}
	n := len(measures[0])
	t := stepDown{a: a}
	for _, values := range measures {
		t.rows = append(t.rows, standardizeValues(replaceOutliers(values)))
	}
	t.startOrder()
	if binomialCoefficient(n, a) <= Rearrangements {
		eachCombination(n, a, t.countArrangement)
	} else {
		t.countRandom(n, rand.New(rand.NewPCG(seed, 0)))
	}
	smallest := 0.0
	for k, i := range t.order { // a clearer measure has no larger p
		smallest = max(smallest, t.above[k]/t.taken)
		p[i] = smallest
	}
	return p
}

// winsorAt is how far from the median of all runs a value counts, in medians of
// the absolute deviations from it. Two sides that lie apart are at about one
// each and keep all of their difference; of values that are normal it is one
// standard deviation.
const winsorAt = 1.5

// replaceOutliers returns values with outliers replaced by the nearest value that is
// none (P. J. Huber, Robust Statistics (1981), section 1.7). Where most are the
// same, nothing says what is an outlier.
func replaceOutliers(values []float64) []float64 {
	middle := Median(values).Value
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	limit := winsorAt * Median(away).Value
	if limit == 0 {
		return values
	}
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = min(max(v, middle-limit), middle+limit)
	}
	return out
}

// standardizeValues returns values with mean 0 and sum of squares 1, all 0 where they
// are the same. For such values the t statistic of an arrangement grows with
// the sum over one side, so that this sum stands for it.
func standardizeValues(values []float64) []float64 {
	out, mean, squares := make([]float64, len(values)), 0.0, 0.0
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	if squares <= 1e-24*mean*mean*float64(len(values)) {
		return out
	}
	for i, v := range values {
		out[i] = (v - mean) / math.Sqrt(squares)
	}
	return out
}

// stepDown counts arrangements.
type stepDown struct {
	a     int
	rows  [][]float64
	order []int     // of measures, the clearest first
	seen  []float64 // what the true arrangement shows, by measure
	above []float64 // arrangements that show as much, by place in order
	taken float64
}

func (t *stepDown) startOrder() {
	side := make([]int, t.a)
	for i := range side {
		side[i] = i
	}
	t.seen, t.above = make([]float64, len(t.rows)), make([]float64, len(t.rows))
	for i := range t.rows {
		t.order = append(t.order, i)
		t.seen[i] = t.distanceOf(i, side)
	}
	slices.SortStableFunc(t.order, func(i, j int) int {
		switch {
		case t.seen[i] > t.seen[j]:
			return -1
		case t.seen[i] < t.seen[j]:
			return 1
		}
		return 0
	})
}

// distanceOf is how far the runs of a side lie from the rest in measure i.
func (t *stepDown) distanceOf(i int, side []int) float64 {
	sum := 0.0
	for _, k := range side {
		sum += t.rows[i][k]
	}
	return math.Abs(sum)
}

// countArrangement counts one arrangement.
func (t *stepDown) countArrangement(side []int) {
	highest := 0.0
	for k := len(t.order) - 1; k >= 0; k-- {
		i := t.order[k]
		highest = max(highest, t.distanceOf(i, side))
		if highest >= t.seen[i]-1e-9 {
			t.above[k]++
		}
	}
	t.taken++
}

// countRandom takes the true arrangement and random ones.
func (t *stepDown) countRandom(n int, r *rand.Rand) {
	runs := make([]int, n)
	for i := range runs {
		runs[i] = i
	}
	t.countArrangement(runs[:t.a])
	for range Rearrangements - 1 {
		for i := range t.a {
			j := i + r.IntN(n-i)
			runs[i], runs[j] = runs[j], runs[i]
		}
		t.countArrangement(runs[:t.a])
	}
}

// eachCombination calls with every way to take k of n, in order.
func eachCombination(n, k int, take func([]int)) {
	pick := make([]int, k)
	for i := range pick {
		pick[i] = i
	}
	for {
		take(pick)
		i := k - 1
		for i >= 0 && pick[i] == n-k+i {
			i--
		}
		if i < 0 {
			return
		}
		pick[i]++
		for j := i + 1; j < k; j++ {
			pick[j] = pick[j-1] + 1
		}
	}
}
