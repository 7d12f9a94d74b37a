package load

import "sort"

// Mix says which of several kinds each call is, by weights and a seed: the same
// for the same call, whatever else was asked.
type Mix struct {
	sums []float64
	seed uint64
}

// NewMix returns a mix of kinds with such weights; negative ones count as 0.
func NewMix(weights []float64, seed uint64) Mix {
	m := Mix{seed: seed}
	sum := 0.0
	for _, w := range weights {
		sum += max(w, 0)
		m.sums = append(m.sums, sum)
	}
	return m
}

// Pick returns the number of the i-th call's kind.
func (m Mix) Pick(i int) int {
	last := len(m.sums) - 1
	if last < 1 {
		return 0
	}
	at := fraction(m.seed, i) * m.sums[last]
	return min(sort.Search(last, func(k int) bool { return m.sums[k] > at }), last)
}

// Draw returns the i-th of a row of random numbers, which depends on nothing
// but i and the seed: the output function of SplitMix64 (Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", 2014).
func Draw(seed uint64, i int) uint64 {
	z := mixBits(seed^0x6c6f6164) + uint64(i+1)*0x9e3779b97f4a7c15
	return mixBits(z)
}

// fraction is the i-th of a row of random numbers, in [0, 1).
func fraction(seed uint64, i int) float64 { return float64(Draw(seed, i)>>11) / (1 << 53) }

func mixBits(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
