package bisect

import (
	"math"
	"slices"
)

// hypothesis is a set of changes that only together makes a run bad. Nil is the
// hypothesis that no set of those does: larger sets, or each of several a part.
type hypothesis []int

// What is believed of causes before the first run that narrows them: most are one change.
const (
	priorPairs   = 0.08 // all pairs together
	priorTriples = 0.02
	priorOther   = 0.02
	// maxHypotheses bounds sets of three, which are looked at among few changes only.
	maxHypotheses = 3000
)

// believed is the probability from which on a suspect is put to the test.
const believed = 0.95

// maxConfirm is how many pairs may test one suspect.
const maxConfirm = 12

// accusation is the evidence of pairs that were flown to confirm a suspect.
type accusation struct {
	number int // of the suspect, in the order of their tests, from 1
	pairs  int
	sample sample
}

// threshold is the evidence that the suspect must reach: each has half of the error that
// those before it left.
func (a accusation) threshold() float64 { return math.Pow(2, float64(a.number)) / confirmError }

// knowledge is what follows from the runs of a search.
type knowledge struct {
	search      *Search
	pairs       []*pair
	broken      brokenConfigs
	left        int // runs that may still be flown
	level       *level
	hypotheses  []hypothesis
	posterior   []float64
	accusations map[string]accusation
	confirmed   []int
	design      *design // the best one, once it was looked for
}

// learn derives what is known.
func learn(s *Search) *knowledge {
	k := &knowledge{search: s, pairs: s.listPairs(), broken: brokenConfigs{}, left: s.Plan.Runs}
	for _, r := range s.Runs {
		if r.State != Skipped {
			k.left--
		}
	}
	for _, p := range k.pairs {
		for side, skipped := range p.skipped {
			if skipped {
				k.broken[p.with[side].key()] = true
			}
		}
	}
	if k.level = k.settleLevel(); k.level == nil {
		return k
	}
	k.listHypotheses()
	k.weighHypotheses()
	k.weighAccusations()
	return k
}

func (k *knowledge) allChanges() config {
	out := make(config, len(k.search.Plan.Changes))
	for i := range out {
		out[i] = true
	}
	return out
}

// listHypotheses lists the sets that may be the cause, with what is believed of them at first.
func (k *knowledge) listHypotheses() {
	n := len(k.search.Plan.Changes)
	var sets [3][]hypothesis
	for a := range n {
		sets[0] = append(sets[0], hypothesis{a})
		for b := a + 1; b < n; b++ {
			if !k.follow(a, b) {
				sets[1] = append(sets[1], hypothesis{a, b})
			}
		}
	}
	if n*n*n/6 < maxHypotheses {
		for _, ab := range sets[1] {
			for c := ab[1] + 1; c < n; c++ {
				if !k.follow(ab[0], c) && !k.follow(ab[1], c) {
					sets[2] = append(sets[2], hypothesis{ab[0], ab[1], c})
				}
			}
		}
	}
	for i, prior := range []float64{1 - priorPairs - priorTriples - priorOther, priorPairs, priorTriples} {
		for _, h := range sets[i] {
			k.hypotheses, k.posterior = append(k.hypotheses, h), append(k.posterior, math.Log(prior/float64(len(sets[i]))))
		}
	}
	k.hypotheses, k.posterior = append(k.hypotheses, nil), append(k.posterior, math.Log(priorOther))
}

// follow says whether two changes are of one chain: then the later one is not applied
// without the other, and no set needs both.
func (k *knowledge) follow(a, b int) bool {
	x, y := k.search.Plan.Changes[a].Chain, k.search.Plan.Changes[b].Chain
	return x != "" && x == y
}

// weighHypotheses is Bayes' rule over the pairs that are not of good and bad.
func (k *knowledge) weighHypotheses() {
	for _, p := range k.pairs {
		if p.Purpose == Verify || !p.isComplete() {
			continue
		}
		difference, mean, ok := k.level.readPair(p)
		if !ok {
			continue
		}
		var of [2][2]float64
		any := 0.0
		for a := range 2 {
			for b := range 2 {
				of[a][b] = k.level.logLikelihood(difference, mean, a, b)
				any += math.Exp(of[a][b]) / 4
			}
		}
		for i, h := range k.hypotheses {
			if h == nil {
				k.posterior[i] += math.Log(max(any, math.SmallestNonzeroFloat64))
				continue
			}
			k.posterior[i] += of[isBad(p.with[0], h)][isBad(p.with[1], h)]
		}
	}
	top := slices.Max(k.posterior)
	sum := 0.0
	for i, v := range k.posterior {
		k.posterior[i] = math.Exp(v - top)
		sum += k.posterior[i]
	}
	for i := range k.posterior {
		k.posterior[i] /= sum
	}
	k.forgetUnlikely()
}

// negligible is the probability below which a hypothesis is not reckoned with any more.
const negligible = 1e-9

func (k *knowledge) forgetUnlikely() {
	kept := 0
	for i, p := range k.posterior {
		if p >= negligible {
			k.hypotheses[kept], k.posterior[kept] = k.hypotheses[i], p
			kept++
		}
	}
	k.hypotheses, k.posterior = k.hypotheses[:kept], k.posterior[:kept]
}

func isBad(c config, h hypothesis) int {
	if c.includes(h) {
		return 1
	}
	return 0
}

// expect is what a pair shows whose sides are bad (1) or good (0).
func (l *level) expect(a, b int) (difference, mean float64) {
	return float64(a-b) * l.apart.mean, l.middle.mean + float64(a+b-1)*l.apart.mean/2
}

// logLikelihood is that of a pair's difference and mean, by Student's t: the spreads are
// estimates of a few pairs, and a run beside a neighbour is not impossible.
func (l *level) logLikelihood(difference, mean float64, a, b int) float64 {
	d, m := l.expect(a, b)
	return l.apart.logDensity(difference-d) + l.middle.logDensity(mean-m)
}

// logDensity is that of a further value at this distance from the mean.
func (s sample) logDensity(distance float64) float64 {
	nu, spread := s.freedom(), s.predicted()
	return -(nu+1)/2*math.Log1p(distance*distance/(nu*spread*spread)) - math.Log(spread)
}

// freedom is the number of degrees of freedom of the spread, which is bounded so that a
// value far away keeps its chance.
func (s sample) freedom() float64 { return float64(min(max(1, s.n-1), 5)) }

// predicted is the spread of a further value about the mean of those that are known.
func (s sample) predicted() float64 { return s.sd * math.Sqrt(1+1/float64(s.n)) }

// weighAccusations collects the evidence against suspects.
func (k *knowledge) weighAccusations() {
	k.accusations = map[string]accusation{}
	values := map[string][]float64{}
	for _, p := range k.pairs {
		if p.Purpose != Confirm {
			continue
		}
		key := newConfig(len(k.search.Plan.Changes), p.Suspect).key()
		a, known := k.accusations[key]
		if !known {
			a.number = len(k.accusations) + 1
		}
		if d, _, ok := k.level.readComplete(p); ok {
			values[key] = append(values[key], d)
			a.pairs, a.sample = len(values[key]), newSample(values[key], smallestSpread)
		}
		k.accusations[key] = a
		if a.sample.n > 1 && a.sample.evidence() >= a.threshold() {
			k.confirmed = p.Suspect
		}
	}
}

// readComplete is readPair of a pair that is complete.
func (l *level) readComplete(p *pair) (difference, mean float64, ok bool) {
	if !p.isComplete() {
		return 0, 0, false
	}
	return l.readPair(p)
}

// findSuspect returns the set that is to be tested by itself: one that is believed, or where
// no more can be told, the smallest set of changes that is. Nil: narrow on.
func (k *knowledge) findSuspect() []int {
	best := k.bestHypothesis()
	if h := k.hypotheses[best]; k.posterior[best] >= believed {
		return h // nil where none explains it
	}
	if _, more := k.findDesign(); more && k.left >= 2+2*k.reserve() {
		return nil
	}
	set := k.credibleSet()
	if len(set) == len(k.search.Plan.Changes) {
		return nil
	}
	return set
}

// reserve is how many pairs the test of a suspect is likely to need.
func (k *knowledge) reserve() int {
	next := accusation{number: len(k.accusations) + 1}
	return min(maxConfirm, k.level.apart.pairsFor(next.threshold()))
}

func (k *knowledge) bestHypothesis() int {
	best := 0
	for i, p := range k.posterior {
		if p > k.posterior[best] {
			best = i
		}
	}
	return best
}

// credibleSet is the changes of the likeliest hypotheses that are believed together.
func (k *knowledge) credibleSet() []int {
	order := make([]int, len(k.hypotheses))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case k.posterior[a] > k.posterior[b]:
			return -1
		case k.posterior[a] < k.posterior[b]:
			return 1
		}
		return 0
	})
	in := make(config, len(k.search.Plan.Changes))
	sum := 0.0
	for _, i := range order {
		if k.hypotheses[i] == nil {
			return k.allChanges().indexes() // anything may be the cause
		}
		for _, c := range k.hypotheses[i] {
			in[c] = true
		}
		if sum += k.posterior[i]; sum >= believed {
			break
		}
	}
	return in.indexes()
}

// contrast is the pair that tests a suspect: the least that has all of it, and the most that
// has nothing of it. Where one of them cannot be flown, bad or good takes its place, which
// still shows that the suspect does some of it. False: there is no such pair.
func (k *knowledge) contrast(suspect []int) (with, without config, ok bool) {
	n := len(k.search.Plan.Changes)
	with, without = newConfig(n, suspect), k.allChanges()
	for i := range with {
		for _, s := range suspect {
			switch {
			case i == s:
				without[i] = false
			case k.follow(i, s) && i < s:
				with[i] = true
			case k.follow(i, s):
				without[i] = false
			}
		}
	}
	chained := slices.ContainsFunc(suspect, func(i int) bool { return k.search.Plan.Changes[i].Chain != "" })
	switch {
	case chained: // good and bad differ in what stands before and after it
	case k.broken.hold(with) && !k.broken.hold(without):
		with = k.allChanges()
	case k.broken.hold(without):
		without = newConfig(n, nil)
	}
	return with, without, !k.broken.hold(with) && !k.broken.hold(without)
}
