package stats

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// MinSegment is how many values lie at least on each side of a change: one
// outlier is none, and two may be.
const MinSegment = 3

// How many orders a segment is put into to learn what chance does: the least
// number is enough for levels down to about a thousandth, the largest bounds time.
const (
	minShuffles = 5000
	maxShuffles = 50_000
)

// MinLevel is the strictest level at which a change can be believed: a smaller
// chance is not drawn.
const MinLevel = 1.0 / (maxShuffles + 1)

// Change is a place in a sequence from which on values come from another source.
type Change struct {
	At int     // index of the first value after it
	P  float64 // chance that a sequence without a change shows one as clear
}

// Changes finds changes of level in sequences: the method E-Divisive of D. S.
// Matteson and N. A. James, A Nonparametric Approach for Multiple Change Point
// Analysis of Multivariate Data, Journal of the American Statistical Association
// 109 (2014), 334-345, which takes no shape of distribution. It is how MongoDB
// watches its benchmarks (D. Daly and others, The Use of Change Point Detection to
// Identify Software Performance Regressions in a Continuous Integration System,
// ICPE 2020), and Hunter (M. Fleming and others, Hunter, ICPE 2023). The
// sequence is cut where the energy distance between both parts is largest, if
// fewer than a share level of its rearrangements show as much, and then each
// part is looked at in the same way.
//
// Values are replaced by their ranks before. Then an outlier moves nothing, and
// all sequences of one length share the distribution that chance gives: it is
// drawn once, so that a strict level can be asked of many sequences. Equal values
// have equal ranks, which chance treats otherwise: sequences with ties share it
// with those of the same ties. A Changes is for one goroutine.
type Changes struct {
	seed  uint64
	nulls map[string]*null // by the ranks in ascending order
	sums  []float64        // see pairs; kept to be used again
}

// null is what chance does with some ranks, as far as somebody asked.
type null struct {
	r              *rand.Rand
	order          []float64
	sortedEnergies []float64 // how clear each shuffled order is
}

// NewChanges returns a finder, the same for the same seed.
func NewChanges(seed uint64) *Changes {
	return &Changes{seed: seed, nulls: map[string]*null{}}
}

// Find returns the changes of a sequence that are believed at a level such as
// 0.01, in its order.
func (c *Changes) Find(values []float64, level float64) []Change {
	var out []Change
	c.findChanges(values, level, 0, &out)
	slices.SortFunc(out, func(a, b Change) int { return a.At - b.At })
	return out
}

func (c *Changes) findChanges(values []float64, level float64, from int, out *[]Change) {
	if len(values) < 2*MinSegment {
		return
	}
	ranked := rankValues(values)
	at, energy := c.clearestSplit(ranked)
	if energy == 0 {
		return
	}
	p := c.chanceOf(ranked, energy, level)
	if p > level {
		return
	}
	*out = append(*out, Change{from + at, p})
	c.findChanges(values[:at], level, from, out)
	c.findChanges(values[at:], level, from+at, out)
}

// chanceOf is how often these ranks, shuffled, show at least an energy. Where that
// is more often than level says it stops to count, and returns 1.
func (c *Changes) chanceOf(ranked []float64, energy, level float64) float64 {
	known := c.nullOf(ranked)
	n := min(max(minShuffles, int(math.Ceil(2/max(level, MinLevel)))), maxShuffles)
	threshold, clear := energy*(1-1e-9), 1
	for i := range n {
		if i == len(known.sortedEnergies) {
			known.r.Shuffle(len(known.order), func(i, j int) { known.order[i], known.order[j] = known.order[j], known.order[i] })
			_, e := c.clearestSplit(known.order)
			known.sortedEnergies = append(known.sortedEnergies, e)
		}
		if known.sortedEnergies[i] >= threshold {
			clear++
		}
		if float64(clear) > level*float64(n+1) {
			return 1
		}
	}
	return float64(clear) / float64(n+1)
}

// nullOf returns what is known of all orders of some ranks.
func (c *Changes) nullOf(ranked []float64) *null {
	order := slices.Clone(ranked)
	slices.Sort(order)
	var key []byte
	for _, v := range order {
		key = binary.LittleEndian.AppendUint32(key, uint32(2*v)) // twice a rank is whole
	}
	known := c.nulls[string(key)]
	if known == nil {
		known = &null{r: rand.New(rand.NewPCG(c.seed, uint64(len(order)))), order: order}
		c.nulls[string(key)] = known
	}
	return known
}

// Visible returns how many values after a change of any size it takes, behind
// before values of another level, until it is believed at a level; 0 when no
// number up to before, or MinSegment, will do.
func (c *Changes) Visible(before int, level float64) int {
	for after := MinSegment; after <= max(before, MinSegment); after++ {
		if c.canSee(before, after, level) {
			return after
		}
	}
	return 0
}

// Sees says whether any change at all can be believed among n values.
func (c *Changes) Sees(n int, level float64) bool {
	return n >= 2*MinSegment && c.canSee(n/2, n-n/2, level)
}

// canSee says whether it is believed that all of some values lie above all others.
func (c *Changes) canSee(before, after int, level float64) bool {
	if level < MinLevel {
		return false
	}
	r := rand.New(rand.NewPCG(0, 3))
	values := make([]float64, before+after)
	for i := range values {
		values[i] = r.Float64()
		if i >= before {
			values[i] += 2
		}
	}
	ranked := rankValues(values)
	at, energy := c.clearestSplit(ranked)
	return at >= before-1 && at <= before+1 && c.chanceOf(ranked, energy, level) <= level
}

// clearestSplit returns the place k of a sequence, and how clear it is: the energy
// distance between v[:k] and v[k:end], weighted by the sizes of both (equation 7
// of the paper with exponent 1), at its largest over k and end. That the right
// side may end early shows a level that comes and goes again.
func (c *Changes) clearestSplit(v []float64) (at int, energy float64) {
	n := len(v)
	sums := c.pairSums(v)
	all := sums[:n+1] // of v[:end]
	for k := MinSegment; k <= n-MinSegment; k++ {
		from := sums[k*(n+1) : (k+1)*(n+1)] // of v[k:end]
		for end := k + MinSegment; end <= n; end++ {
			l, r := float64(k), float64(end-k)
			across := all[end] - all[k] - from[end]
			e := l * r / (l + r) * (2*across/(l*r) - 2*all[k]/(l*(l-1)) - 2*from[end]/(r*(r-1)))
			if e > energy {
				at, energy = k, e
			}
		}
	}
	return at, energy
}

// pairSums returns for each k and end, at k*(n+1)+end, the sum of the distances of
// all pairs within v[k:end].
func (c *Changes) pairSums(v []float64) []float64 {
	n := len(v)
	c.sums = slices.Grow(c.sums[:0], (n+1)*(n+1))[:(n+1)*(n+1)]
	clear(c.sums)
	for k := n - 1; k >= 0; k-- {
		mine, next := c.sums[k*(n+1):(k+1)*(n+1)], c.sums[(k+1)*(n+1):]
		row := 0.0
		for end := k + 1; end <= n; end++ {
			row += math.Abs(v[k] - v[end-1])
			mine[end] = next[end] + row
		}
	}
	return c.sums
}

// rankValues replaces values by their ranks; equal ones have the mean of theirs.
func rankValues(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}
