package bisect

import (
	"math"
	"slices"
)

// The budget of errors of a whole search: at most 5 of 100 searches accuse wrongly.
const (
	verifyError  = 0.02 // good and bad are called unlike and are not
	confirmError = 0.03 // a suspect is named that does not do most of it
)

// MinEffect is the smallest difference of good and bad, as a share, that a search looks for.
const MinEffect = 0.02

// smallestSpread is the spread, as a share, that a measure has at least, however alike its
// few values are.
const smallestSpread = 0.003

// standardEffects are the differences, in standard deviations of a pair's, that evidence bets on
// in equal parts: of times, of quiet times, of counters, of counters that hardly vary.
func standardEffects() []float64 { return []float64{1.5, 3, 8, 30} }

// sample sums up some values.
type sample struct {
	n        int
	mean, sd float64
}

// newSample sums up values whose spread is at least the floor.
func newSample(values []float64, floor float64) sample {
	s := sample{n: len(values)}
	for _, v := range values {
		s.mean += v / float64(s.n)
	}
	for _, v := range values {
		s.sd += (v - s.mean) * (v - s.mean)
	}
	if s.n > 1 {
		s.sd = math.Sqrt(s.sd / float64(s.n-1))
	}
	s.sd = max(s.sd, floor)
	return s
}

// evidence is the e-value of the hypothesis that the mean is zero or below: its
// expectation is at most 1 if that is so, after any number of pairs and whenever one
// stops, so that it exceeds 1/a with probability a at most (Ville). It is the ratio of the
// likelihoods of the t statistic under standardEffects and under none, with the right Haar
// measure on the spread, which is not known: T. L. Lai, On confidence sequences, Annals of
// Statistics 4 (1976); M. F. Pérez-Ortiz et al., E-statistics, group invariance and
// anytime-valid testing, Annals of Statistics 52 (2024).
func (s sample) evidence() float64 {
	if s.n < 2 {
		return 1
	}
	n := float64(s.n)
	c := n * s.mean / math.Sqrt((n-1)*s.sd*s.sd+n*s.mean*s.mean)
	effects := standardEffects()
	sum := 0.0
	for _, e := range effects {
		sum += likelihoodRatio(n, c, e)
	}
	return sum / float64(len(effects))
}

// bothSides is the evidence of a difference in either direction: the other one adds next to none.
func (s sample) bothSides() float64 {
	s.mean = math.Abs(s.mean)
	return s.evidence() / 2
}

// likelihoodRatio integrates v^(n-1) exp(-(v-ec)^2/2 + e^2(c^2-n)/2) over v, in relation to
// its value for e = 0, which is a gamma function.
func likelihoodRatio(n, c, effect float64) float64 {
	const steps, reach = 48, 6.5
	at := effect * c
	top := (at + math.Sqrt(at*at+4*(n-1))) / 2
	low, high := max(0, top-reach), top+reach
	height := (n-1)*math.Log(top) - (top-at)*(top-at)/2
	sum := 0.0
	for i := range steps {
		v := low + (high-low)*(float64(i)+0.5)/steps
		sum += math.Exp((n-1)*math.Log(v) - (v-at)*(v-at)/2 - height)
	}
	gamma, _ := math.Lgamma(n / 2)
	return math.Exp(math.Log(sum*(high-low)/steps) + height + effect*effect*(c*c-n)/2 - (n/2-1)*math.Ln2 - gamma)
}

// pairsFor is how many pairs reach so much evidence if all of them are as far apart as
// the sample's, and as unlike one another.
func (s sample) pairsFor(evidence float64) int {
	for n := 2; n < 1000; n++ {
		if (sample{n, math.Abs(s.mean), s.sd}).evidence() >= evidence {
			return n
		}
	}
	return 1000
}

// level is the measure of a search: what good and bad are in it.
type level struct {
	key      string
	sign     float64 // +1: bad has more of it
	apart    sample  // bad less good of each pair, in logarithms, times the sign
	middle   sample  // mean of good and bad of each pair, times the sign
	counts   bool    // of whole things, which is one more unit of spread for few of them
	evidence float64
	reversed bool // good is the worse one
}

// scale is the logarithm that differences are shares of. A count may be zero.
func scale(v float64, counts bool) float64 {
	if counts {
		return math.Log1p(v)
	}
	return math.Log(v)
}

// verifyPairs are those that compare good and bad and are complete.
func (k *knowledge) verifyPairs() (out []*pair) {
	for _, p := range k.pairs {
		if p.Purpose == Verify && p.isComplete() {
			out = append(out, p)
		}
	}
	return out
}

func (k *knowledge) verified() int { return len(k.verifyPairs()) }

// minVerify is how many pairs of good and bad are flown at least: three say how much
// runs vary, roughly.
const minVerify = 3

// maxVerify is how many are flown at most: half of the runs that may be flown.
func (k *knowledge) maxVerify() int { return max(minVerify, k.search.Plan.Runs/4) }

// candidates are the levels in every measure that enough pairs of good and bad have.
func (k *knowledge) candidates() []level {
	pairs := k.verifyPairs()
	var out []level
	for key, m := range k.search.Measures {
		if l, ok := newLevel(key, m, pairs); ok {
			out = append(out, l)
		}
	}
	return out
}

// newLevel compares good and bad in one measure; false where too few runs have it. A run that lacks
// a counter counted nothing.
func newLevel(key string, m Measure, pairs []*pair) (level, bool) {
	l := level{key: key, counts: m.Counter, sign: 1}
	var apart, middle []float64
	floor := smallestSpread
	for _, p := range pairs {
		good, in := p.runs[0].Values[key]
		bad, too := p.runs[1].Values[key]
		if !m.Counter && (!in || !too) {
			continue // a run whose times are not believed
		}
		if good < 0 || bad < 0 || !m.Counter && (good == 0 || bad == 0) {
			return l, false
		}
		if m.Counter {
			floor = max(floor, 0.5/(1+max(good, bad)))
		}
		apart = append(apart, scale(bad, m.Counter)-scale(good, m.Counter))
		middle = append(middle, (scale(bad, m.Counter)+scale(good, m.Counter))/2)
	}
	if len(apart) < minVerify {
		return l, false
	}
	l.apart, l.middle = newSample(apart, floor), newSample(middle, floor)
	if l.apart.mean < 0 {
		l.sign, l.apart.mean, l.middle.mean = -1, -l.apart.mean, -l.middle.mean
	}
	if l.apart.mean >= math.Log1p(MinEffect) {
		l.evidence = l.apart.bothSides()
	}
	l.reversed = l.sign > 0 && m.Higher || l.sign < 0 && m.Lower
	return l, true
}

// settleLevel finds the measure in which good and bad differ most surely and most, counters
// before times. Each measure has its share of the error, of which counters have half. Nil:
// not yet, or none.
func (k *knowledge) settleLevel() *level {
	if k.verified() < minVerify {
		return nil
	}
	all := k.candidates()
	needed := neededEvidence(all)
	all = slices.DeleteFunc(all, func(l level) bool { return l.evidence < needed[l.counts] })
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, bySurety)
	return &all[0]
}

// neededEvidence is what a measure must reach, counters (true) and others (false).
func neededEvidence(all []level) map[bool]float64 {
	out := map[bool]float64{}
	for _, l := range all {
		out[l.counts]++
	}
	both := float64(len(out))
	for counts := range out {
		out[counts] *= both / verifyError
	}
	return out
}

// sureEnough is from where on, in standard deviations, a surer difference is no
// better than a larger one.
const sureEnough = 10

func bySurety(a, b level) int {
	rank := func(l level) (bool, float64) { return l.counts, min(sureEnough, l.apart.mean/l.apart.sd) }
	ac, as := rank(a)
	bc, bs := rank(b)
	switch {
	case ac != bc && ac, ac == bc && as > bs:
		return -1
	case ac != bc, as < bs:
		return 1
	case a.apart.mean != b.apart.mean:
		if a.apart.mean > b.apart.mean {
			return -1
		}
		return 1
	case a.key < b.key:
		return -1
	}
	return 1
}

// readPair returns the difference and the mean of a pair's two runs in the level's measure;
// false where one of them lacks it.
func (l *level) readPair(p *pair) (difference, mean float64, ok bool) {
	a, in := p.runs[0].Values[l.key]
	b, too := p.runs[1].Values[l.key]
	if !l.counts && (!in || !too || a <= 0 || b <= 0) {
		return 0, 0, false
	}
	x, y := l.sign*scale(a, l.counts), l.sign*scale(b, l.counts)
	return x - y, (x + y) / 2, true
}
