// Command alarm asks how often a comparison finds a difference where there is
// none: it takes run directories of one variant, such as all runs of A of
// bench/power, gives them to two sides, and counts the comparisons that call any
// measure worse or better or show any counter as different beyond chance. It
// flies nothing and is no part of windtunnel.
//
// It does so in three ways. "In the order flown" takes each stretch of 2N runs
// that followed one another and deals them A B B A ..., as the verb ab would have
// done. Stretches have no run in common, since one chance arrangement would be
// counted many times if they overlapped; so they are few. "Neighbours by lot"
// deals each pair of neighbours of such a stretch to the two sides by lot, many
// times over: a machine that drifts shows here. "At random" takes 2N of all
// runs, each dealt by lot: it proves the arithmetic, with the spread and the ties
// of real runs, but no drift.
//
// It exits 0 when the latter two give an alarm in at most 5 of 100.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
)

func main() {
	runs := flag.Int("runs", 10, "runs of each side of a comparison")
	random := flag.Int("random", 200, "comparisons of runs dealt by lot, of either kind")
	seed := flag.Uint64("seed", 1, "of what is dealt at random")
	flag.Parse()
	ok, err := countAlarms(flag.Args(), *runs, *random, *seed)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case !ok:
		os.Exit(1)
	}
}

// countAlarms counts both ways and says whether both are within bounds.
func countAlarms(paths []string, n, random int, seed uint64) (bool, error) {
	if n < 1 {
		return false, errors.New("-runs: want at least 1")
	}
	runs, err := openRuns(paths)
	if err != nil {
		return false, err
	}
	if len(runs) < 2*n {
		return false, fmt.Errorf("%d runs that can be compared: want at least %d for two sides of %d", len(runs), 2*n, n)
	}
	inOrder, byLot, atRandom := &tally{keys: map[string]int{}}, &tally{keys: map[string]int{}}, &tally{keys: map[string]int{}}
	r := rand.New(rand.NewPCG(seed, 0))
	stretches := len(runs) / (2 * n)
	for i := range stretches {
		stretch := runs[i*2*n : (i+1)*2*n]
		if err := inOrder.compareSides(stretch, isInterleavedA); err != nil {
			return false, err
		}
		for range (random + stretches - 1) / stretches {
			if err := byLot.compareSides(stretch, randomPairs(r, n)); err != nil {
				return false, err
			}
		}
	}
	for range random {
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		if err := atRandom.compareSides(runs[:2*n], func(i int) bool { return i < n }); err != nil {
			return false, err
		}
	}
	fmt.Printf("%d runs, %d a side\nin the order flown  %s\nneighbours by lot   %s\nat random           %s\n", len(runs), n, inOrder, byLot, atRandom)
	return byLot.isWithinBound() && atRandom.isWithinBound(), nil
}

// openRuns reads the runs, those that cannot be compared left out by name, in the
// order in which they were flown.
func openRuns(paths []string) ([]compare.Run, error) {
	var out []compare.Run
	for _, path := range paths {
		r, err := compare.Open(path)
		if err != nil {
			return nil, err
		}
		if why := r.Unfit(); why != "" {
			fmt.Fprintf(os.Stderr, "left out: %s: %s\n", path, why)
			continue
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b compare.Run) int { return a.Manifest.Started.Compare(b.Manifest.Started) })
	return out, nil
}

// isInterleavedA deals A B B A A B B A ...
func isInterleavedA(i int) bool { return i%4 == 0 || i%4 == 3 }

// randomPairs deals each of n pairs of neighbours A B or B A, by lot.
func randomPairs(r *rand.Rand, n int) func(i int) bool {
	first := make([]bool, n)
	for i := range first {
		first[i] = r.IntN(2) == 0
	}
	return func(i int) bool { return first[i/2] == (i%2 == 0) }
}

// compareSides compares runs of one variant as if they were of two, and counts what
// comes out.
func (t *tally) compareSides(runs []compare.Run, isA func(i int) bool) error {
	var sides [2][]compare.Run
	for i, r := range runs {
		side := 1
		if isA(i) {
			side = 0
		}
		sides[side] = append(sides[side], r)
	}
	c, err := compare.Compare(sides[0], sides[1], compare.Options{Seed: 1})
	if err != nil {
		return err
	}
	t.countComparison(c)
	return nil
}

// tally counts comparisons and alarms.
type tally struct {
	of, alarms int
	keys       map[string]int // alarms by measure or counter
}

func (t *tally) countComparison(c *compare.Comparison) {
	var told []string
	for _, m := range c.Measures {
		if m.Differs() {
			told = append(told, m.Key)
		}
	}
	for _, k := range c.Counters {
		if k.Shown {
			told = append(told, k.Name+" ("+k.Unit+")")
		}
	}
	t.of++
	if len(told) > 0 {
		t.alarms++
	}
	for _, k := range told {
		t.keys[k]++
	}
}

// isWithinBound says whether at most 5 of 100 gave an alarm.
func (t *tally) isWithinBound() bool { return 100*t.alarms <= 5*t.of }

// maxNamed is how many measures that gave an alarm are named.
const maxNamed = 5

// String says a tally on one line, with the measures that gave most alarms.
func (t *tally) String() string {
	text := fmt.Sprintf("%d alarms in %d comparisons", t.alarms, t.of)
	keys := slices.SortedFunc(maps.Keys(t.keys), func(a, b string) int {
		return cmp.Or(-cmp.Compare(t.keys[a], t.keys[b]), cmp.Compare(a, b))
	})
	var named []string
	for _, k := range keys[:min(len(keys), maxNamed)] {
		named = append(named, fmt.Sprintf("%s: %d", k, t.keys[k]))
	}
	if len(named) == 0 {
		return text
	}
	return text + " (" + strings.Join(named, "; ") + ")"
}
