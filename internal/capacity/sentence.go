package capacity

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

func trimEnd(s string) string { return strings.TrimRight(s, ". \n") }

// sentence says the result in words.
func (s *search) sentence(r Result) string {
	text := s.edgeText(r.Edges[0])
	if len(s.plan.Axes) == 2 {
		text = s.envelopeText(r.Edges)
	}
	if r.Limit != nil && r.Limit.Failed > 0 {
		text += fmt.Sprintf("; what gives way is %s, in %d of the %d runs that failed above the edge", r.Limit.Objective, r.Limit.Failed, r.Limit.Of)
	}
	if r.Knee != nil {
		text += fmt.Sprintf("; the curve of %s turns up at %s", r.Limit.Objective, unit.Number(r.Knee.X))
	}
	return text + "."
}

// edgeText says an edge: "3,000 pods pass (3 of 3 runs) and 3,200 do not (0 of 3)".
func (s *search) edgeText(e Edge) string {
	if e.Passing == nil && e.Failing == nil {
		return "nothing was flown to its end yet"
	}
	var parts []string
	if e.Passing != nil {
		parts = append(parts, fmt.Sprintf("%s %s passes%s", e.Axis, unit.Number(e.Passing.Value), e.Passing.runs()))
	} else {
		parts = append(parts, fmt.Sprintf("no value of %s that was flown passes", e.Axis))
	}
	switch f := e.Failing; {
	case f == nil && e.Done:
		parts = append(parts, "which is the most that was asked for")
	case f == nil:
		parts = append(parts, "and none that was flown does not")
	case f.fails():
		parts = append(parts, fmt.Sprintf("%s does not%s", unit.Number(f.Value), f.runs()))
	default:
		parts = append(parts, fmt.Sprintf("of %s it cannot be told%s", unit.Number(f.Value), f.runs()))
	}
	if !e.Done {
		parts = append(parts, "and the search is not at its end")
	}
	return strings.Join(parts, ", ")
}

// fails says that a level does not pass, rather than that it cannot be told.
func (l Level) fails() bool { return l.Failed > l.Passed || l.Implied }

// runs says how a level stands.
func (l Level) runs() string {
	switch {
	case l.Implied:
		return " (as others show)"
	case l.Passed+l.Failed == 0:
		return fmt.Sprintf(" (%d runs, none of which could be judged)", l.Unknown)
	}
	text := fmt.Sprintf(" (%d of %d runs passed", l.Passed, l.Passed+l.Failed)
	if l.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", l.Unknown)
	}
	return text + ")"
}

// envelopeText says the frontier of two axes.
func (s *search) envelopeText(edges []Edge) string {
	x, y := s.plan.Axes[0].Name, s.plan.Axes[1].Name
	var parts []string
	done := true
	for _, e := range edges {
		done = done && e.Done
		switch {
		case e.Axis == x && e.Passing != nil:
			parts = append(parts, fmt.Sprintf("%s ends at %s", x, unit.Number(e.Passing.Value)))
		case e.Axis == x:
		case e.Passing == nil:
			parts = append(parts, fmt.Sprintf("none at %s %s", x, unit.Number(e.Fixed[x])))
		default:
			parts = append(parts, fmt.Sprintf("%s at %s %s", unit.Number(e.Passing.Value), x, unit.Number(e.Fixed[x])))
		}
	}
	text := fmt.Sprintf("largest %s that passes: %s", y, strings.Join(parts, ", "))
	if !done {
		text += ", and the search is not at its end"
	}
	return text
}

// Short is a run on one line: "pods=3000: fail".
func (p Plan) Short(r Run) string {
	s := &search{plan: p}
	text := fmt.Sprintf("%s: %s", s.text(r.Point), r.Verdict)
	if r.Verdict != slo.Pass && r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}
