package bisect

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is a plane whose truth is known.
type world struct {
	changes  int
	chain    bool
	culprits []int   // only together do harm; none: A/A
	effect   float64 // logarithm of bad over good
	noise    float64 // of a run, in logarithms
	drift    float64 // of a pair
	counter  bool
	decoys   int     // measures that nothing changes
	busy     float64 // share of runs beside a neighbor, which makes them half as slow again
	broken   float64 // share of combinations that do not start
	unknown  float64 // share of runs that end unknown
	named    bool    // the measure is given
}

func (w world) newSearch(runs int) *Search {
	s := &Search{Plan: Plan{Runs: runs}, Measures: map[string]Measure{"m": {Counter: w.counter}}}
	for i := range w.changes {
		c := Change{Name: fmt.Sprint("p", i), From: "0", To: "1"}
		if w.chain {
			c = Change{Name: "v", From: fmt.Sprint(i), To: fmt.Sprint(i + 1), Chain: "v"}
		}
		s.Plan.Changes = append(s.Plan.Changes, c)
	}
	if !w.named {
		for i := range w.decoys {
			s.Measures[fmt.Sprint("d", i)] = Measure{Counter: i%2 == 0}
		}
	}
	return s
}

// fly searches in the world until the search is at its end.
func (w world) fly(seed uint64, runs int) *Search {
	s := w.newSearch(runs)
	draw := rand.New(rand.NewPCG(seed, 7))
	drifts, fails := map[int]float64{}, map[string]bool{}
	for range 4 * runs {
		step, ok := Next(s)
		if !ok {
			return s
		}
		c := newConfig(w.changes, step.With)
		if _, drawn := fails[c.key()]; !drawn {
			fails[c.key()] = step.Purpose != Verify && draw.Float64() < w.broken
		}
		r := Run{Step: step, State: Measured, Values: map[string]float64{}}
		if _, drawn := drifts[step.Pair]; !drawn {
			drifts[step.Pair] = draw.NormFloat64() * w.drift
		}
		slow := 0.0
		if draw.Float64() < w.busy {
			slow = math.Log(1.5)
		}
		for _, key := range slices.Sorted(maps.Keys(s.Measures)) {
			m := s.Measures[key]
			log := draw.NormFloat64()*w.noise + drifts[step.Pair] + slow
			if key == "m" && len(w.culprits) > 0 && c.includes(w.culprits) {
				log += w.effect
			}
			if r.Values[key] = 1000 * math.Exp(log); m.Counter {
				r.Values[key] = math.Round(r.Values[key])
			}
		}
		switch {
		case fails[c.key()]:
			r.State, r.Values = Skipped, nil
		case draw.Float64() < w.unknown:
			r.State, r.Values = Unknown, nil
		}
		s.Runs = append(s.Runs, r)
	}
	panic("the search does not end")
}

// The rates that the page on bisecting states. Effects and noise are logarithms: 0.4 is 49 % more.
// Each search may cost 40 runs; every one has among its measures 60 that nothing changes, or
// is given its measure.
func TestRates(t *testing.T) {
	counter := world{changes: 64, culprits: []int{17}, effect: 0.05, noise: 0.005, counter: true, decoys: 60}
	latency := world{changes: 64, culprits: []int{17}, effect: 0.4, noise: 0.1, drift: 0.1, named: true}
	for _, c := range []struct {
		name  string
		w     func(w *world)
		base  world
		exact int // of 20, at least
		named int // of 20, exactly or among others, at least
	}{
		{"a counter", func(*world) {}, counter, 19, 19},
		{"a counter that is given", func(w *world) { w.named = true }, counter, 19, 19},
		{"a time that is given", func(*world) {}, latency, 17, 17},
		{"a time beside neighbors", func(w *world) { w.busy, w.effect = 0.05, 0.7 }, latency, 18, 18},
		{"a time that is found", func(w *world) { w.named, w.decoys, w.effect = false, 60, 0.7 }, latency, 18, 18},
		{"two together", func(w *world) { w.culprits = []int{17, 40} }, counter, 18, 18},
		{"two together, in a time", func(w *world) { w.culprits, w.effect = []int{17, 40}, 0.7 }, latency, 18, 18},
		{"three together of ten", func(w *world) { w.changes, w.culprits, w.effect = 10, []int{1, 4, 7}, 0.2 }, counter, 18, 18},
		{"one of 64 steps", func(w *world) { w.chain = true }, counter, 19, 19},
		{"one of 64 steps, in a time", func(w *world) { w.chain, w.drift = true, 0.05 }, latency, 15, 16},
		{"steps that do not start", func(w *world) { w.chain, w.broken = true, 0.2 }, counter, 10, 17},
		{"combinations that do not start, and runs unknown", func(w *world) { w.named, w.broken, w.unknown = true, 0.2, 0.1 }, counter, 17, 17},
		{"alike", func(w *world) { w.culprits = nil }, counter, 0, 0},
		{"alike, and a counter that varies", func(w *world) { w.culprits, w.noise = nil, 0.05 }, counter, 0, 0},
		{"alike, beside neighbors", func(w *world) { w.culprits, w.busy, w.named, w.decoys = nil, 0.1, false, 60 }, latency, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.w(&c.base)
			t.Parallel()
			checkRates(t, c.base, c.exact, c.named)
		})
	}
}

// checkRates searches 20 times, and five times as often without -short.
func checkRates(t *testing.T, w world, wantExact, wantNamed int) {
	times := 5 // 13 s of CPU
	if testing.Short() {
		times = 1
	}
	exact, named, wrong, runs := 0, 0, 0, 0
	for seed := range uint64(20 * times) {
		s := w.fly(seed, DefaultRuns)
		runs += len(s.Runs)
		r := Conclude(s)
		confirmed := r.Answer == One || r.Answer == Together || r.Answer == Interval
		switch {
		case !confirmed:
		case slices.Equal(r.Changes, w.culprits):
			exact++
			named++
		case len(w.culprits) > 0 && newConfig(w.changes, r.Changes).includes(w.culprits):
			named++
		default:
			wrong++
		}
	}
	t.Logf("%d searches: %d exact, %d named, %d wrong, %.1f runs", 20*times, exact, named, wrong, float64(runs)/float64(20*times))
	if exact < wantExact*times || named < wantNamed*times || wrong > times {
		t.Errorf("want %d exact, %d named, at most %d wrong", wantExact*times, wantNamed*times, times)
	}
}

// The evidence of a difference that is not there exceeds 20 in at most one of 20 sequences,
// however long one looks.
func TestEvidenceIsBounded(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 3))
	const sequences = 2000
	crossed := 0
	for range sequences {
		var values []float64
		for len(values) < 20 {
			values = append(values, draw.NormFloat64())
			if newSample(values, 0).evidence() >= 20 {
				crossed++
				break
			}
		}
	}
	t.Logf("%d of %d", crossed, sequences)
	if crossed > sequences/20 {
		t.Errorf("%d of %d sequences", crossed, sequences)
	}
}

// The evidence is the ratio of integrals that its comment says: 35.5 for two values that are one,
// at an effect of 10 standard deviations.
func TestEvidenceOfTwoAlike(t *testing.T) {
	got := likelihoodRatio(2, math.Sqrt2, 10)
	if want := 2 * 10 * math.Sqrt(math.Pi); math.Abs(got/want-1) > 0.01 {
		t.Errorf("%v, want %v", got, want)
	}
}
