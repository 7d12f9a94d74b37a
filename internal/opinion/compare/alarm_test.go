package compare_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// alarms says whether a comparison finds any difference at all.
func alarms(c *compare.Comparison) bool {
	for _, m := range c.Measures {
		if m.Differs() {
			return true
		}
	}
	for _, k := range c.Counters {
		if k.Shown {
			return true
		}
	}
	return false
}

// Like compared with like gives a false alarm, in any of its measures or
// counters, in at most 5 of 100 comparisons.
func TestFalseAlarms(t *testing.T) {
	for _, c := range []struct {
		runs, families int
		spread         float64
	}{{4, 300, 0.04}, {5, 300, 0.2}, {10, 100, 0.04}} {
		s := newSource(1, c.spread)
		n := 0
		for i := range c.families {
			a, b := s.sides(c.runs, 1)
			got := repotest.Must(compare.Compare(a, b, compare.Options{Seed: uint64(i)}))(t)
			if alarms(got) {
				n++
			}
		}
		t.Logf("%d runs a side, spread %v: %d of %d", c.runs, c.spread, n, c.families)
		if 100*n > 5*c.families {
			t.Errorf("%d runs a side, spread %v: %d false alarms in %d comparisons, want at most 5 of 100", c.runs, c.spread, n, c.families)
		}
	}
}

// A slowdown of 10 % is found in at least 9 of 10 comparisons of 10 runs a side
// that spread by 4 %, and in most where one run of each side takes twice as long
// as it should, as on a machine that was taken away for a while.
func TestSlowdownIsFound(t *testing.T) {
	for factor, want := range map[float64]int{1: 54, 2: 31} {
		if got := found(t, factor); got < want {
			t.Errorf("one run of ten %v times as slow: found in %d of 60 comparisons, want %d", factor, got, want)
		}
	}
}

func found(t *testing.T, factor float64) (found int) {
	t.Helper()
	s := newSource(2, 0.04)
	const trials = 60
	for i := range trials {
		a, b := s.sides(9, 1.1)
		a, b = append(a, s.run("a", factor)), append(b, s.run("b", 1.1*factor))
		got := repotest.Must(compare.Compare(a, b, compare.Options{Seed: uint64(i)}))(t)
		for _, m := range got.Measures {
			if m.Key == "pod_startup_p99_seconds" && m.Outcome == compare.Worse {
				found++
			}
		}
	}
	t.Logf("one run of ten %v times as slow: found in %d of %d", factor, found, trials)
	return found
}
