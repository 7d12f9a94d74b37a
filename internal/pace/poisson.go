package pace

import (
	"math"
	"math/rand/v2"
)

// arrivals are the times of a Poisson process of rate 1, in the order of their
// numbers. They are sums of random distances and therefore drawn in order;
// marks along the way make it cheap to go back.
type arrivals struct {
	rng   rand.PCG
	next  int // number of the next arrival to be drawn
	sum   float64
	last  float64 // arrival next-1
	marks []mark  // state before arrival 0, distance, 2 distance ...
}

// mark is the state before an arrival.
type mark struct {
	rng rand.PCG
	sum float64
}

// distance is how many arrivals lie between two marks.
const distance = 4096

func newArrivals(seed uint64) *arrivals {
	// The second half tells these draws from others of the same seed.
	return &arrivals{rng: *rand.NewPCG(seed, 0x706f6973736f6e)}
}

// timeOf returns the time of arrival i, i from 0.
func (a *arrivals) timeOf(i int) float64 {
	if i == a.next-1 {
		return a.last
	}
	if i < a.next-1 {
		m := max(0, i) / distance
		a.rng, a.sum, a.next = a.marks[m].rng, a.marks[m].sum, m*distance
	}
	for a.next <= i {
		a.drawNext()
	}
	return a.last
}

// drawNext takes the next arrival.
func (a *arrivals) drawNext() {
	if a.next%distance == 0 && a.next/distance == len(a.marks) {
		a.marks = append(a.marks, mark{a.rng, a.sum})
	}
	// 1-u is in (0, 1]: 53 random bits, never 0.
	u := float64(a.rng.Uint64()>>11) / (1 << 53)
	a.sum += -math.Log(1 - u)
	a.last = a.sum
	a.next++
}
