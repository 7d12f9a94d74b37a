package atlas

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Numbers of runs.
const (
	Defaults = 6 // of the defaults, from which the range of each counter is known
	Screened = 2 // with the gate turned, for counters
	Measured = 5 // of each side, for costs, where a counter moved
)

// Runs returns how many runs so many gates take at least, if no counter moves, and at most.
func Runs(gates int) (least, most int) {
	return Defaults + Screened*gates, Defaults + (Screened+2*Measured)*gates
}

// Moved is a counter or a measure with the gate off and on: means of the runs.
type Moved struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Off  float64 `json:"off"`
	On   float64 `json:"on"`
}

// A counter that moves by less than leastShare or by less than leastCount is left out.
const (
	leastShare = 0.02
	leastCount = 3
)

// counterKey names a counter.
type counterKey struct{ name, unit string }

// counts returns the counters of a run as totals.
func counts(r compare.Run) map[counterKey]float64 {
	out := map[counterKey]float64{}
	if r.Facts == nil {
		return out
	}
	for _, c := range r.Facts.Totals() {
		out[counterKey{c.Name, c.Unit}] = c.Value
	}
	return out
}

// Screen returns the counters that move when a gate is turned: those that lie, in every turned
// run, beyond the range of all runs of the defaults by more than the width of that range, and by
// at least 2 % and 3 counts. A change that is smaller than what like runs differ by is not seen.
func Screen(defaults, turned []compare.Run, gate Gate) (out []Moved) {
	still, moved := countsOf(defaults), countsOf(turned)
	known := map[counterKey]bool{}
	for _, c := range slices.Concat(still, moved) {
		for k := range c {
			known[k] = true
		}
	}
	for k := range known {
		a, b := valuesOf(still, k), valuesOf(moved, k)
		if !lieApart(a, b) {
			continue
		}
		m := Moved{k.name, k.unit, stats.Mean(a).Value, stats.Mean(b).Value}
		if gate.Default { // the turned side is the one without
			m.Off, m.On = m.On, m.Off
		}
		out = append(out, m)
	}
	slices.SortFunc(out, compareMoved)
	return out
}

func compareMoved(a, b Moved) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit))
}

func countsOf(runs []compare.Run) (out []map[counterKey]float64) {
	for _, r := range runs {
		out = append(out, counts(r))
	}
	return out
}

func valuesOf(runs []map[counterKey]float64, k counterKey) (out []float64) {
	for _, r := range runs {
		out = append(out, r[k])
	}
	return out
}

// lieApart tells whether all of b lie on one side of a, as Screen has it.
func lieApart(a, b []float64) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	low, high := slices.Min(a), slices.Max(a)
	beyond := max(high-low, leastShare*math.Abs(stats.Mean(a).Value), leastCount)
	return slices.Min(b) > high+beyond || slices.Max(b) < low-beyond
}

// Confirm keeps of the screened counters those that lie apart in fresh runs too, all runs of
// one side beyond all of the other and in the same direction. Chance alone does that to a
// counter once in 252 times with five runs a side.
func Confirm(screened []Moved, off, on []compare.Run) (out []Moved) {
	without, with := countsOf(off), countsOf(on)
	for _, m := range screened {
		k := counterKey{m.Name, m.Unit}
		a, b := valuesOf(without, k), valuesOf(with, k)
		rises, falls := slices.Min(b) > slices.Max(a), slices.Max(b) < slices.Min(a)
		if rises && m.On > m.Off || falls && m.On < m.Off {
			out = append(out, Moved{m.Name, m.Unit, stats.Mean(a).Value, stats.Mean(b).Value})
		}
	}
	return out
}

// Costs returns the judged measures that differ beyond chance between the gate off, A, and on.
func Costs(c *compare.Comparison) (out []Moved) {
	for _, m := range c.Measures {
		if !m.Besides && (m.Outcome == compare.Worse || m.Outcome == compare.Better) {
			out = append(out, Moved{m.Title, m.Unit, m.A.Median, m.B.Median})
		}
	}
	return out
}

// totals are the sums of counters that the table over all gates has.
func totals() []struct{ Title, prefix, unit string } {
	return []struct{ Title, prefix, unit string }{
		{"requests", "server: ", "requests"}, {"etcd operations", "etcd: ", "requests"},
		{"etcd bytes", "log written: ", "bytes"}, {"allocated", "allocated: ", "bytes"},
	}
}

// Sums returns, for each total of the table, its mean of some runs.
func Sums(runs []compare.Run) (out []float64) {
	all := countsOf(runs)
	for _, t := range totals() {
		sum := 0.0
		for _, c := range all {
			for k, v := range c {
				if strings.HasPrefix(k.name, t.prefix) && k.unit == t.unit {
					sum += v
				}
			}
		}
		out = append(out, sum/float64(max(1, len(runs))))
	}
	return out
}

// Spread returns, for each total of the table, by which share the runs of the defaults differ
// at most.
func Spread(defaults []compare.Run) (out []float64) {
	var sums [][]float64 // of each run
	for _, r := range defaults {
		sums = append(sums, Sums([]compare.Run{r}))
	}
	for i := range totals() {
		var all []float64
		for _, of := range sums {
			all = append(all, of[i])
		}
		share := 0.0
		if len(all) > 0 && slices.Min(all) > 0 {
			share = slices.Max(all)/slices.Min(all) - 1
		}
		out = append(out, share)
	}
	return out
}
