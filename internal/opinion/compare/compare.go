// Package compare says in what the runs of one variant, A, differ from those
// of another, B, how surely, and where the runs cannot tell.
//
// It is pure but for Open, which reads a run directory: the same runs give the
// same comparison on any machine. It judges no run (package slo does) and flies
// none.
package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrRefused says that runs cannot honestly be compared.
var ErrRefused = errors.New("cannot be compared")

// Levels at which a difference is believed. Measures that are judged, the scenario's
// own counts, counters that are not equal, and whatever else was measured are each
// corrected for their number; together they give a false alarm in at most 5 of
// 100 comparisons of like with like, for that is their sum. Four runs a side reach the first
// (2 of their 70 arrangements), five the second (2 of 252), six the last (2 of 924).
const (
	measureLevel = 0.029
	counterLevel = 0.008 // of the scenario's own counts, and again of the others
	besidesLevel = 0.005
)

// MinRuns is how many runs a side can show a difference in a measure that is
// judged, or was asked for by name.
func MinRuns() int { return stats.MinRuns(measureLevel) }

// MinRunsBesides is how many can show one in any other measure.
func MinRunsBesides() int { return stats.MinRuns(besidesLevel) }

// Effect is the difference, as a share, that advice about the number of runs
// is for when no other is asked for.
const Effect = 0.1

// Options say what is compared and how.
type Options struct {
	NameA, NameB string   // of the sides, for people; empty: A and B
	Asked        []string // facts that are meant to differ: "parameter rate"
	Only         []string // measures whose names hold one of these; empty: all
	FailAbove    float64  // by which share a judged measure may be worse; 0: no gate
	Seed         uint64   // of random rearrangements, where there are too many to try all
	Notes        []string // sentences of whoever flew the runs, to be among the warnings
}

// Comparison is the content of comparison.json.
type Comparison struct {
	Scenario    string       `json:"scenario"`
	A           Side         `json:"a"`
	B           Side         `json:"b"`
	Differences []Difference `json:"differences"`
	EqualFacts  int          `json:"equal_facts"` // of the manifests, the same in all runs
	Warnings    []string     `json:"warnings"`    // sentences
	// Counters is nil where a run's records are not there. They are compared on
	// different machines, too.
	Counters []Counter `json:"counters"`
	// Measures are all that were measured, those first that differ most surely and
	// most. They are not compared between different machines.
	Measures []Measure `json:"measures"`
	// Published are figures of others for the two sides' parameters.
	Published []Figure `json:"published,omitempty"`
	Gate      *Gate    `json:"gate,omitempty"`
}

// Side is one variant.
type Side struct {
	Name    string   `json:"name"`
	Runs    []string `json:"runs"`
	LeftOut []string `json:"left_out,omitempty"` // "NAME: why"
	// LimitedBy is what limited its runs, by the first cause of each one's diagnosis; the
	// most frequent first. Nil where none was diagnosed.
	LimitedBy []Limit `json:"limited_by,omitempty"`
}

// Gate is the outcome of Options.FailAbove.
type Gate struct {
	FailAbove    float64     `json:"fail_above"`
	Verdict      slo.Verdict `json:"verdict"`
	Failed       []string    `json:"failed"`       // keys of measures that are worse by more
	Inconclusive []string    `json:"inconclusive"` // keys of measures of which it cannot be told
}

// UnmarshalJSON reads a gate, under the keys of older versions too.
func (g *Gate) UnmarshalJSON(raw []byte) error {
	type gate Gate
	v := struct {
		*gate
		Untold []string `json:"untold"`
	}{gate: (*gate)(g)}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if v.Untold != nil {
		g.Inconclusive = v.Untold
	}
	return nil
}

// comparing is what one comparison works with.
type comparing struct {
	o    Options
	runs []Run // of A, then of B
	a    int   // runs of A
	out  *Comparison
}

// Compare compares two sides. Runs that did not come to their end are left out
// by name. An error wraps ErrRefused and says why nothing can be compared: other
// scenarios, a run given twice, a side without a run.
func Compare(a, b []Run, o Options) (*Comparison, error) {
	if o.NameA == "" {
		o.NameA = "A"
	}
	if o.NameB == "" {
		o.NameB = "B"
	}
	c := &comparing{o: o, out: &Comparison{Differences: []Difference{}, Warnings: []string{}, Counters: []Counter{}, Measures: []Measure{}}}
	if err := c.admitRuns(a, b); err != nil {
		return nil, err
	}
	c.out.Scenario = c.runs[0].Manifest.Scenario
	d, equal := listDifferences(c.runs[:c.a], c.runs[c.a:], o.Asked)
	c.out.Differences, c.out.EqualFacts = append(c.out.Differences, d...), equal
	c.out.Warnings = append(c.out.Warnings, o.Notes...)
	c.warnOfFewRuns()
	c.warnOfWeakRuns()
	c.out.A.LimitedBy, c.out.B.LimitedBy = countLimits(c.runs[:c.a]), countLimits(c.runs[c.a:])
	c.out.Counters = c.compareCounters()
	if err := c.checkNames(); err != nil {
		return nil, err
	}
	others := slices.ContainsFunc(c.runs, func(r Run) bool { return !SameMachine(r, c.runs[0]) })
	if others {
		c.addWarning("The runs are from different machines. Only counters are compared, because latency, CPU and memory depend on the machine.")
	} else {
		c.compareMeasures()
	}
	c.out.Published = c.figures()
	if o.FailAbove > 0 {
		c.out.Gate = c.holdGate(others)
	}
	return c.out, nil
}

func (c *comparing) addWarning(format string, args ...any) {
	c.out.Warnings = append(c.out.Warnings, fmt.Sprintf(format, args...))
}

// admitRuns takes the runs that can be compared.
func (c *comparing) admitRuns(a, b []Run) error {
	all := slices.Concat(a, b)
	for i, r := range all {
		for _, other := range all[:i] {
			if SameRun(r, other) {
				return fmt.Errorf("%s and %s: %w: they are one run", other.Name, r.Name, ErrRefused)
			}
			if r.Manifest.Scenario != other.Manifest.Scenario {
				return fmt.Errorf("%s and %s: %w: they are runs of different scenarios, %s and %s",
					other.Name, r.Name, ErrRefused, other.Manifest.Scenario, r.Manifest.Scenario)
			}
			if n := len(differingLines(other.Scenario, r.Scenario)); n > 1 {
				return fmt.Errorf("%s and %s: %w: the texts of their scenarios differ in %s; one option is the most, better a parameter",
					other.Name, r.Name, ErrRefused, unit.Count(n, "lines"))
			}
		}
	}
	for i, runs := range [][]Run{a, b} {
		side := Side{Name: []string{c.o.NameA, c.o.NameB}[i]}
		for _, r := range runs {
			if why := r.Unfit(); why != "" {
				side.LeftOut = append(side.LeftOut, r.Name+": "+why)
				continue
			}
			side.Runs = append(side.Runs, r.Name)
			c.runs = append(c.runs, r)
		}
		switch {
		case len(side.Runs) > 0:
		case len(side.LeftOut) > 0:
			return fmt.Errorf("%w: no run of %s came to its end: %s", ErrRefused, side.Name, side.LeftOut[0])
		default:
			return fmt.Errorf("%w: no run of %s", ErrRefused, side.Name)
		}
		*[]*Side{&c.out.A, &c.out.B}[i] = side
		if i == 0 {
			c.a = len(c.runs)
		}
	}
	return nil
}

// SameRun says whether two are one run, or copies of it.
func SameRun(a, b Run) bool {
	return a.Name == b.Name || !a.Manifest.Started.IsZero() && a.Manifest.Started.Equal(b.Manifest.Started)
}

// warnOfWeakRuns warns of what casts doubt on runs, by name.
func (c *comparing) warnOfWeakRuns() {
	for _, side := range []Side{c.out.A, c.out.B} {
		for _, s := range side.LeftOut {
			c.addWarning("Left out of %s: %s.", side.Name, s)
		}
	}
	for _, r := range c.runs {
		if why := r.Warning(); why != "" {
			c.addWarning("%s: %s.", r.Name, why)
		}
	}
	var unasked []string
	for _, d := range c.out.Differences {
		if !d.Asked {
			unasked = append(unasked, d.Fact)
		}
	}
	switch {
	case len(c.o.Asked) > 0 && len(unasked) > 0:
		c.addWarning("Only %s was meant to differ between A and B, but these differ too: %s.", strings.Join(c.o.Asked, ", "), strings.Join(unasked, ", "))
	case len(unasked) > 1:
		c.addWarning("The sides differ in %s: the runs do not show which of them changed the measures.", unit.Count(len(unasked), "facts"))
	}
}

// compareMeasures compares whatever was measured in every run: as one family what
// is judged or asked for by name, as another all the rest, which is many and must not
// hide the few.
func (c *comparing) compareMeasures() {
	judged, besides := c.collectMeasures()
	if len(judged) == 0 && len(c.o.Only) == 0 {
		c.addWarning("No judged measure exists in every run.")
	}
	c.testFamily(judged, measureLevel)
	c.testFamily(besides, besidesLevel)
	slices.SortStableFunc(c.out.Measures, byWeight)
}

// testFamily tests a family of measures at a level.
func (c *comparing) testFamily(family []values, level float64) {
	rows := make([][]float64, len(family))
	varying := 0
	for i, v := range family {
		if rows[i] = logarithms(v.all); !isConstant(v.all) {
			varying++
		}
	}
	corrected := stats.Permute(c.a, rows, c.o.Seed)
	for i, v := range family {
		m := newMeasure(v, c.a, corrected[i])
		m.Outcome = c.decideOutcome(m, level)
		m.Apart = m.Outcome == Inconclusive && m.liesApart()
		c.adviseRuns(&m, level/float64(max(1, varying)))
		m.Sentence = c.describeOutcome(m)
		c.out.Measures = append(c.out.Measures, m)
	}
}

// logarithms returns the logarithms of values that are all positive, so that
// differences are shares; others as they are.
func logarithms(v []float64) []float64 {
	if slices.Min(v) <= 0 {
		return v
	}
	out := make([]float64, len(v))
	for i := range v {
		out[i] = math.Log(v[i])
	}
	return out
}

// effectSize is the difference that matters: the gate's bound, or Effect.
func (c *comparing) effectSize() float64 {
	if c.o.FailAbove > 0 {
		return c.o.FailAbove
	}
	return Effect
}
