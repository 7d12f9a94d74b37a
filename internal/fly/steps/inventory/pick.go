package inventory

import (
	"math"
	"math/rand/v2"
	"slices"
)

// PercentOf is how many of n a cycle takes. A percentage that was made of a whole number
// gives that number.
func PercentOf(n int, percent float64) int {
	return min(n, int(math.Ceil(float64(n)*percent/100-1e-6)))
}

// PickScattered returns which of n a cycle takes, so many and in order.
func PickScattered(n, take int, random *rand.Rand) []int {
	moved := map[int]int{} // of a shuffle that goes no further than it has to
	at := func(i int) int {
		if v, ok := moved[i]; ok {
			return v
		}
		return i
	}
	out := make([]int, take)
	for i := range out {
		j := i + random.IntN(n-i)
		out[i] = at(j)
		moved[j] = at(i)
	}
	slices.Sort(out)
	return out
}

// PickAdjacent returns which of n a cycle takes that are to lie side by side.
func PickAdjacent(n int, percent float64, random *rand.Rand) []int {
	out := make([]int, PercentOf(n, percent))
	if len(out) == 0 {
		return nil
	}
	first := random.IntN(n - len(out) + 1)
	for i := range out {
		out[i] = first + i
	}
	return out
}
