package pace

import "time"

// Scattered is count calls at uniformly random times of a window. The same seed
// gives the same times.
//
// Sorted, such times are the arrivals of a Poisson process up to its arrival
// number count, divided by the time of that arrival (Devroye, Non-Uniform
// Random Variate Generation, 1986, V.2.1): so they are known one by one, and
// none need be kept.
func Scattered(count int, window time.Duration, seed uint64) *Pace {
	p := Within(count, window)
	if p.burst {
		return p
	}
	p.arrivals = newArrivals(seed)
	p.stretch = float64(count) / p.arrivals.timeOf(count)
	return p
}

// Jitter returns the pace with each due time moved towards the next one, by up
// to share of the distance (0 to 1), evenly distributed, from the seed. So the
// order and the mean rate stay.
func (p *Pace) Jitter(share float64, seed uint64) *Pace {
	q := *p
	if share > 0 {
		q.jitter = &jitter{share: min(share, 1), seed: seed}
	}
	return &q
}

// Bundle returns the pace of n calls where this one has one: n of them are due
// at the same time.
func (p *Pace) Bundle(n int) *Pace {
	q := *p
	q.bundle = max(1, n) * max(1, p.bundle)
	return &q
}

// jitter moves due times.
type jitter struct {
	share float64
	seed  uint64
}

func (j *jitter) moveDue(i int, due func(int) time.Duration) time.Duration {
	at, next := due(i), due(i+1)
	if at == Never || next == Never {
		return at
	}
	return at + time.Duration(j.share*unitDraw(j.seed, uint64(i))*float64(next-at))
}

// unitDraw returns a number of [0, 1) for the i-th draw of a seed: the output
// function of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014), 53 bits of it.
func unitDraw(seed, i uint64) float64 {
	z := seed ^ 0x6a6974746572 // tells these draws from others of the same seed
	z = (z + (i+1)*0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}
