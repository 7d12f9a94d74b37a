// Package capacity finds the largest load that still passes: it brackets the
// edge between what passes and what does not, halves the bracket, and repeats
// both sides of the edge until they can be believed. With two parameters it finds
// the edge for several values of the first one: the envelope. Or it finds the
// largest rate that is sustained, whatever is asked for: the throughput.
//
// It is pure. What to fly next follows from the plan and the runs so far alone,
// so that a search can be stopped and taken up again with nothing kept but its
// runs. It flies nothing. How quantities grow with size is
// package growth's.
package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrPlan says that a plan cannot be searched.
var ErrPlan = errors.New("cannot be searched")

// Plan says what is searched.
type Plan struct {
	Goal       Goal    `json:"goal,omitempty"`
	Rate       string  `json:"rate,omitempty"` // name of the run.Rate that is looked at; empty: see RateName
	Axes       []Axis  `json:"axes"`           // one or two
	Resolution float64 `json:"resolution"`     // how far neighbouring values are apart, see Axis.Levels
	Repeats    int     `json:"repeats"`        // runs of each of the two values at the edge
	Columns    int     `json:"columns"`        // with two axes: values of the first one
	MaxRuns    int     `json:"most_runs"`      // 0: as many as it takes
	Seconds    float64 `json:"seconds"`        // budget of time, 0: as long as it takes
}

// Bounds of a plan.
const (
	DefaultResolution = 0.05
	DefaultRepeats    = 3
	DefaultColumns    = 5
	maxRepeats        = 100
)

// Validate says all that is wrong with a plan; the error wraps ErrPlan.
func (p Plan) Validate() error {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrPlan}, args...)...))
	}
	if p.Goal != Objectives && p.Goal != ThroughputGoal {
		bad("goal %s: want %s", p.Goal, ThroughputGoal)
	}
	if len(p.Axes) != 1 && len(p.Axes) != 2 {
		bad("%s: want one or two", unit.Count(len(p.Axes), "parameters"))
	}
	if len(p.Axes) == 2 && p.Axes[0].Name == p.Axes[1].Name {
		bad("parameter %s twice", p.Axes[0].Name)
	}
	for _, a := range p.Axes {
		if !(a.From < a.To) || a.From < 0 || a.Log && a.From == 0 {
			bad("parameter %s: no range from %g to %g", a.Name, a.From, a.To)
		}
		if a.Whole && (a.From != float64(int64(a.From)) || a.To != float64(int64(a.To))) {
			bad("parameter %s is a whole number", a.Name)
		}
	}
	if !(p.Resolution > 0 && p.Resolution <= 1) {
		bad("resolution %g: want above 0 and at most 1", p.Resolution)
	}
	if p.Repeats < 1 || p.Repeats > maxRepeats {
		bad("%s: want 1 to %d", unit.Count(p.Repeats, "repeats"), maxRepeats)
	}
	if len(p.Axes) == 2 && p.Columns < 2 {
		bad("%s: want at least 2", unit.Count(p.Columns, "columns"))
	}
	if p.MaxRuns < 0 || p.Seconds < 0 {
		bad("runs or budget below 0")
	}
	return errors.Join(faults...)
}

// Run is one run that was flown.
type Run struct {
	Point      []float64   `json:"point"` // values of the axes
	Verdict    slo.Verdict `json:"verdict"`
	Reason     string      `json:"reason,omitempty"` // the weightiest one
	Objectives []Objective `json:"objectives"`
	Rates      []run.Rate  `json:"rates,omitempty"` // what its steps asked for and achieved
	Bound      string      `json:"bound,omitempty"` // what limited the plane, by its diagnosis; empty: nothing did, or it is not known
	Seconds    float64     `json:"seconds"`         // that it took, plane and all
	Dir        string      `json:"dir"`             // its run directory
	Seed       uint64      `json:"seed"`
}

// Objective is what a run came to in one respect.
type Objective struct {
	Name      string      `json:"name"`  // with its statistic and labels: the same in all runs
	Value     *float64    `json:"value"` // nil: not measured
	Unit      string      `json:"unit"`
	Threshold float64     `json:"threshold"`
	AtLeast   bool        `json:"at_least,omitempty"` // the threshold is a lower bound
	Verdict   slo.Verdict `json:"verdict"`
	Rate      string      `json:"rate,omitempty"` // name of the run's rate that it bounds
}

// shareOfBound is how much of its bound it uses up: 1 is all of it, and infinite where
// no number says how far it is beyond: nothing of what has to be some, or anything
// of what has to be nothing.
func (o Objective) shareOfBound() float64 {
	if o.Value == nil {
		return 0
	}
	used, of := *o.Value, o.Threshold
	if o.AtLeast {
		used, of = of, used
	}
	switch {
	case used <= 0:
		return 0
	case of <= 0:
		return math.Inf(1)
	}
	return used / of
}

// Step is what to do next.
type Step struct {
	Point  []float64 // to be flown; nil when the search is at its end
	Repeat int       // runs of this point so far
	Why    string    // for people
	Spent  bool      // the end is that of the budget, not of the search
}

// Next says what to fly after some runs.
func Next(p Plan, runs []Run) Step {
	s := newSearch(p, runs)
	point, why := s.nextPoint()
	if point == nil {
		return Step{Why: why}
	}
	if text := p.budgetSpent(runs); text != "" {
		return Step{Why: text, Spent: true}
	}
	repeat := 0
	for _, r := range runs {
		if slices.Equal(r.Point, point) {
			repeat++
		}
	}
	return Step{Point: point, Repeat: repeat, Why: why}
}

// budgetSpent says that the budget is spent: another run that takes as long as the
// last one would go beyond it.
func (p Plan) budgetSpent(runs []Run) string {
	if p.MaxRuns > 0 && len(runs) >= p.MaxRuns {
		return fmt.Sprintf("the budget of %d runs is spent", p.MaxRuns)
	}
	total := 0.0
	for _, r := range runs {
		total += r.Seconds
	}
	if p.Seconds > 0 && len(runs) > 0 && total+runs[len(runs)-1].Seconds > p.Seconds {
		return fmt.Sprintf("the budget of %.0f s has no room for another run", p.Seconds)
	}
	return ""
}
