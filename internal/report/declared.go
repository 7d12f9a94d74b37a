package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/scenario"
)

// reachedBy is the share of a life's objects that must have reached a phase, and
// before they were deleted, for it to be one of those that lives are taken apart
// at: one that few reach (failed) or that belongs to the end says nothing of the
// way of all others.
const reachedBy = 0.9

// mostParts is how many parts a life is taken into at most.
const mostParts = 12

// DeclaredLife is what was seen of the objects of a life that the scenario
// declares.
type DeclaredLife struct {
	Name      string
	Spreads   []Spread // from created to each phase, by group
	Parts     []string // the phases that end the parts of Breakdown
	Breakdown []Breakdown
}

// declaredLives arranges the lives of the scenario that were seen. Where the
// scenario cannot be read, phases stand in the order in which they were seen.
func (t *tally) declaredLives(known []scenario.Lifecycle) []DeclaredLife {
	var out []DeclaredLife
	for _, l := range t.lives.declared {
		order := l.order(known)
		parts := make([]stretch, 0, len(order)+1)
		for _, p := range order {
			parts = append(parts, stretch{l.phases[created] + " to " + l.phases[p], created, p})
		}
		parts = append(parts, stretch{"deleting to deleted", deleting, deleted})
		d := DeclaredLife{Name: l.name, Spreads: t.spreads(l, parts)}
		if p := l.parting(order); len(p.phases) > 2 {
			d.Breakdown = t.breakdowns(l, p)
			for _, phase := range p.phases[1:] {
				d.Parts = append(d.Parts, l.phases[phase])
			}
		}
		out = append(out, d)
	}
	return out
}

// order lists the phases that were seen between created and deleting, as the
// scenario orders them.
func (l *lives) order(known []scenario.Lifecycle) []int {
	var own []int
	for p := unknown + 1; p < len(l.phases); p++ {
		own = append(own, p)
	}
	i := slices.IndexFunc(known, func(k scenario.Lifecycle) bool { return k.Name == l.name })
	if i < 0 {
		return own
	}
	names := known[i].AllPhases()
	slices.SortStableFunc(own, func(a, b int) int {
		return slices.Index(names, l.phases[a]) - slices.Index(names, l.phases[b])
	})
	return own
}

// parting chooses where a life is taken apart.
func (l *lives) parting(order []int) parting {
	p := parting{phases: []int{created}}
	for _, phase := range order {
		n := 0
		for i := range l.all {
			v := &l.all[i]
			if at := v.when(phase); at != never && at < v.leaves(created, math.MaxInt64) {
				n++
			}
		}
		if float64(n) >= reachedBy*float64(len(l.all)) && len(p.phases) <= mostParts {
			p.phases = append(p.phases, phase)
		}
	}
	p.ordered = len(p.phases) - 1
	return p
}

// lifeView is a declared life as the page shows it.
type lifeView struct {
	ID, Name string
	Rows     []spreadRow
	Parted   partedRows
}

func (r *Report) lifeViews() []lifeView {
	var out []lifeView
	for i, l := range r.Declared {
		out = append(out, lifeView{"life-" + strconv.Itoa(i+1), l.Name, spreadRows(l.Spreads), parted("Objects", l.Parts, l.Breakdown)})
	}
	return out
}
