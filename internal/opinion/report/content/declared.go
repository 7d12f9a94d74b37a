package content

import (
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// reachedBy is the share of a lifecycle's objects that must have reached a phase, and
// before they were deleted, for it to be one of those that lifecycles are taken apart
// at: one that few reach (failed) or that belongs to the end says nothing of the
// way of all others.
const reachedBy = 0.9

// maxParts is how many parts a lifecycle is taken into at most.
const maxParts = 12

// DeclaredLifecycle is what was seen of the objects of a lifecycle that the scenario
// declares.
type DeclaredLifecycle struct {
	Name      string
	Spreads   []Spread // from created to each phase, by group
	Parts     []string // the phases that end the parts of Breakdown
	Breakdown []Breakdown
}

// declaredLifecycles arranges the lifecycles of the scenario that were seen. Where the
// scenario cannot be read, phases stand in the order in which they were seen.
func declaredLifecycles(in *run.Run) []DeclaredLifecycle {
	var names []string
	for _, l := range in.Facts.Lifecycles {
		if l.Name != "" && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	var out []DeclaredLifecycle
	for _, name := range names {
		all := in.Facts.Named(name)
		order := orderPhases(in, name, all)
		parts := make([]transition, 0, len(order)+1)
		for _, p := range order {
			parts = append(parts, transition{record.PhaseCreated + " to " + p, record.PhaseCreated, p})
		}
		parts = append(parts, transition{"deleting to deleted", record.PhaseDeleting, record.PhaseDeleted})
		d := DeclaredLifecycle{Name: name, Spreads: newSpreads(in.Facts, all, parts)}
		if p := partingOf(all, order); len(p.phases) > 2 {
			d.Breakdown, d.Parts = newBreakdowns(in.Facts, all, p), p.phases[1:]
		}
		out = append(out, d)
	}
	return out
}

// orderPhases lists the phases that were seen between created and deleting, as the
// scenario orders them.
func orderPhases(in *run.Run, name string, all []*run.Lifecycles) []string {
	var own []string
	for _, l := range all {
		for _, p := range l.Phases() {
			switch p {
			case record.PhaseCreated, record.PhaseDeleting, record.PhaseDeleted, record.PhaseUnknown:
			default:
				if !slices.Contains(own, p) {
					own = append(own, p)
				}
			}
		}
	}
	if in.Scenario == nil {
		return own
	}
	for _, l := range in.Scenario.Observed() {
		if l.Name == name {
			names := l.AllPhases()
			slices.SortStableFunc(own, func(a, b string) int { return slices.Index(names, a) - slices.Index(names, b) })
		}
	}
	return own
}

// partingOf chooses where lifecycles are taken apart.
func partingOf(all []*run.Lifecycles, order []string) parting {
	p := parting{phases: []string{record.PhaseCreated}}
	for _, phase := range order {
		n := 0
		for _, l := range all {
			for row := range l.Len() {
				if at, ok := l.At(row, phase); ok && at < leavesAt(l, row) {
					n++
				}
			}
		}
		if float64(n) >= reachedBy*float64(countObjects(all)) && len(p.phases) <= maxParts {
			p.phases = append(p.phases, phase)
		}
	}
	p.ordered = len(p.phases) - 1
	return p
}

// leavesAt is when an object began to go.
func leavesAt(l *run.Lifecycles, row int) clock.Time {
	end := clock.Time(math.MaxInt64)
	for _, p := range []string{record.PhaseDeleting, record.PhaseDeleted} {
		if at, ok := l.At(row, p); ok {
			end = min(end, at)
		}
	}
	return end
}
