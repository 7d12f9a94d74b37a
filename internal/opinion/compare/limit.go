package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Limit is what limited some of a side's runs most, by their diagnoses.
type Limit struct {
	Cause     diagnose.Cause `json:"cause"` // empty: nothing was found that did
	Component string         `json:"component,omitempty"`
	Runs      int            `json:"runs"`
	Of        int            `json:"of"`    // runs that were diagnosed
	Score     float64        `json:"score"` // median over its runs of the share of the load's window that it explains
}

// countLimits counts the first causes of runs; those of most runs first.
func countLimits(runs []Run) []Limit {
	type key struct {
		cause     diagnose.Cause
		component string
	}
	scores := map[key][]float64{}
	var order []key
	of := 0
	for _, r := range runs {
		if r.Findings == nil {
			continue
		}
		of++
		k, score := key{}, 0.0
		if len(r.Findings) > 0 && r.Findings[0].Cause != diagnose.Nothing {
			first := r.Findings[0]
			k, score = key{first.Cause, first.Component}, first.Score
		}
		if _, known := scores[k]; !known {
			order = append(order, k)
		}
		scores[k] = append(scores[k], score)
	}
	var out []Limit
	for _, k := range order {
		out = append(out, Limit{Cause: k.cause, Component: k.component, Runs: len(scores[k]), Of: of, Score: stats.Median(scores[k]).Value})
	}
	slices.SortStableFunc(out, func(a, b Limit) int { return -cmp.Compare(a.Runs, b.Runs) })
	return out
}

// Limited says what limited a side's runs, and of how much of the load's time: "apf
// of kube-apiserver in 2 of 3 runs (78 %), nothing in 1 of 3".
func (s Side) Limited() string {
	if len(s.LimitedBy) == 0 {
		return "not known: no run has its diagnosis"
	}
	var parts []string
	for _, l := range s.LimitedBy {
		what := string(l.Cause)
		if l.Component != "" {
			what += " of " + l.Component
		}
		in := fmt.Sprintf(" in %d of %s", l.Runs, unit.Count(l.Of, "runs"))
		if len(parts) > 0 {
			in = fmt.Sprintf(" in %d of %d", l.Runs, l.Of)
		}
		if l.Cause == "" || l.Cause == diagnose.Nothing {
			parts = append(parts, "nothing"+in)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s%s (%s)", what, in, percentText(l.Score)))
	}
	return strings.Join(parts, ", ")
}
