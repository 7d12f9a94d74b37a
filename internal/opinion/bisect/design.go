package bisect

import (
	"math"
	"math/rand/v2"
)

// design is a pair of runs that would narrow the cause.
type design struct {
	a, b  config
	score float64 // nats that it is expected to tell, at least
}

// drawnDesigns is how many are looked at for each pair.
const drawnDesigns = 60

// leastTold is what a pair must be expected to tell, in nats, to be worth flying.
const leastTold = 0.02

// findDesign returns the pair that tells most; false where none tells enough.
func (k *knowledge) findDesign() (design, bool) {
	if k.design == nil {
		d := k.searchDesigns()
		k.design = &d
	}
	return *k.design, k.design.score >= leastTold
}

func (k *knowledge) searchDesigns() design {
	draw := rand.New(rand.NewPCG(uint64(len(k.search.Runs)), 1))
	weights := k.weighChanges()
	var best design
	for i := range drawnDesigns {
		d := k.drawDesign(draw, weights, i)
		if k.broken.hold(d.a) || k.broken.hold(d.b) {
			continue
		}
		if d.score = k.scoreDesign(d); d.score > best.score {
			best = d
		}
	}
	return best
}

// weighChanges is the probability of each change to be of the cause.
func (k *knowledge) weighChanges() []float64 {
	out := make([]float64, len(k.search.Plan.Changes))
	for i, h := range k.hypotheses {
		for _, c := range h {
			out[c] += k.posterior[i]
		}
	}
	return out
}

// drawDesign draws a design that parts what the changes weigh: every change goes to both sides, to
// one or to none, whichever has least, with shares that differ from design to design.
func (k *knowledge) drawDesign(draw *rand.Rand, weights []float64, number int) design {
	n := len(weights)
	d := design{a: make(config, n), b: make(config, n)}
	shares := [][4]float64{{0, 1, 1, 0}, {1, 1, 1, 1}, {2, 1, 1, 0}, {1, 1, 1, 0}, {4, 1, 1, 0}, {1, 1, 1, 3}}[number%6] // both, a, b, neither
	var filled [4]float64
	for _, i := range draw.Perm(n) {
		if k.search.Plan.Changes[i].Chain != "" {
			continue
		}
		to, least := 0, math.Inf(1)
		for q, share := range shares {
			if load := (filled[q] + weights[i]*draw.Float64()) / share; share > 0 && load < least {
				to, least = q, load
			}
		}
		filled[to] += weights[i] + 1e-6
		d.a[i], d.b[i] = to == 0 || to == 1, to == 0 || to == 2
	}
	k.cutChains(draw, weights, d)
	return d
}

// cutChains applies of each chain a part from its begin on, to either side.
func (k *knowledge) cutChains(draw *rand.Rand, weights []float64, d design) {
	total := map[string]float64{}
	for i, c := range k.search.Plan.Changes {
		total[c.Chain] += weights[i]
	}
	cuts := map[string][2]float64{}
	passed := map[string]float64{}
	for i, c := range k.search.Plan.Changes {
		if c.Chain == "" {
			continue
		}
		at, drawn := cuts[c.Chain]
		if !drawn {
			at = [2]float64{draw.Float64(), draw.Float64()}
			cuts[c.Chain] = at
		}
		passed[c.Chain] += weights[i]
		middle := (passed[c.Chain] - weights[i]/2) / max(total[c.Chain], math.SmallestNonzeroFloat64)
		d.a[i], d.b[i] = middle < at[0], middle < at[1]
	}
}

// scoreDesign is a lower bound of the information that a pair gives about the cause: the entropy
// of what it shows, less what the spread of runs confuses (A. Kolchinsky and B. Tracey,
// Estimating mixture entropy with pairwise distances, Entropy 19 (2017)).
func (k *knowledge) scoreDesign(d design) float64 {
	var mass [2][2]float64
	for i, h := range k.hypotheses {
		if h != nil {
			mass[isBad(d.a, h)][isBad(d.b, h)] += k.posterior[i]
		}
	}
	out := 0.0
	for x := range 4 {
		p, seen := mass[x/2][x%2], 0.0
		for y := range 4 {
			seen += mass[y/2][y%2] * math.Exp(-k.level.divergence(x, y))
		}
		if p > 0 {
			out -= p * math.Log(seen)
		}
	}
	return out
}

// divergence is the Bhattacharyya distance of what two outcomes of a pair look like.
func (l *level) divergence(x, y int) float64 {
	d1, m1 := l.expect(x/2, x%2)
	d2, m2 := l.expect(y/2, y%2)
	d, m := (d1-d2)/l.apart.predicted(), (m1-m2)/l.middle.predicted()
	return (d*d + m*m) / 8
}
