package history

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Gate is the outcome of Options.FailAbove.
type Gate struct {
	FailAbove float64     `json:"fail_above"`
	Verdict   slo.Verdict `json:"verdict"`
	Failed    []string    `json:"failed"` // keys of measures that are worse by more, since a change that nobody has accepted
	// Needed is how many builds more it takes until a change can be seen; until then
	// the verdict is unknown, and no build's fault.
	Needed    int      `json:"builds_needed,omitempty"`
	Suspected []string `json:"suspected,omitempty"` // keys of those that are so if a suspected change is one
}

// holdGate holds each measure's level since its last change that nobody has
// accepted against the level before it. Where so few runs cannot show any change
// the verdict is unknown; sees tells whether a number of runs can.
func (r *Report) holdGate(above float64, sees func(runs int) bool) *Gate {
	g := &Gate{FailAbove: above, Verdict: slo.Pass, Failed: []string{}}
	for _, m := range r.Measures {
		sure := slices.DeleteFunc(slices.Clone(m.Changes), func(c Change) bool { return c.Suspected })
		switch {
		case m.hasWorsened(above, sure):
			g.Failed = append(g.Failed, m.Key)
		case m.hasWorsened(above, m.Changes):
			g.Suspected = append(g.Suspected, m.Key)
		}
	}
	switch {
	case len(g.Failed) > 0:
		g.Verdict = slo.Fail
	case len(r.Measures) == 0:
		g.Verdict = slo.Unknown
	case !sees(len(r.Runs)):
		g.Verdict, g.Needed = slo.Unknown, r.neededRuns(sees)
	}
	return g
}

// neededRuns is how many runs more would do; 0 where none would.
func (r *Report) neededRuns(sees func(runs int) bool) int {
	for n := len(r.Runs) + 1; n <= maxRuns; n++ {
		if sees(n) {
			return n - len(r.Runs)
		}
	}
	return 0
}

// Neutral says that nothing but more builds is wanting: a gate in CI begins so.
func (g *Gate) Neutral() bool { return g.Verdict == slo.Unknown && g.Needed > 0 }

// hasWorsened says whether some of a measure's changes have made it worse by more
// than a share since the first of them that nobody has accepted.
func (m Measure) hasWorsened(above float64, changes []Change) bool {
	first := slices.IndexFunc(changes, func(c Change) bool { return !c.Accepted })
	if first < 0 {
		return false
	}
	from := 0
	if first > 0 {
		from = changes[first-1].At
	}
	before := stats.Median(m.Values[from:changes[first].At]).Value
	now := stats.Median(m.Values[changes[len(changes)-1].At:]).Value
	if share := m.worseningShare(before, now); share != nil {
		return *share > above
	}
	if m.Better == compare.Higher {
		before, now = now, before
	}
	return now-before > compare.MinStep(m.Unit)
}
