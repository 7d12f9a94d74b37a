package capacity

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

func trimEnd(s string) string { return strings.TrimRight(s, ". \n") }

// describeResult says the result in words.
func (s *search) describeResult(r Result) string {
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
		parts = append(parts, fmt.Sprintf("%s %s passes%s", e.Axis, unit.Number(e.Passing.Value), e.Passing.runsText()))
		if text := s.shortAt(e); text != "" {
			parts = append(parts, "but "+text)
		}
	} else {
		parts = append(parts, fmt.Sprintf("no value of %s that was flown passes", e.Axis))
	}
	switch f := e.Failing; {
	case f == nil && s.shortAt(e) != "":
	case f == nil && e.Done:
		parts = append(parts, "which is the most that was asked for")
	case f == nil:
		parts = append(parts, "and none that was flown does not")
	case f.doesNotPass():
		parts = append(parts, fmt.Sprintf("%s does not%s", unit.Number(f.Value), f.runsText()))
	default:
		parts = append(parts, fmt.Sprintf("of %s it cannot be told%s", unit.Number(f.Value), f.runsText()))
	}
	if !e.Done {
		parts = append(parts, "and the search is not at its end")
	}
	return strings.Join(parts, ", ")
}

// doesNotPass says that a level does not pass, rather than that it cannot be told.
func (l Level) doesNotPass() bool { return l.Failed > l.Passed || l.Implied }

// runsText says how a level stands.
func (l Level) runsText() string {
	switch {
	case l.Implied:
		return " (as others show)"
	case l.Passed+l.Failed == 0:
		return fmt.Sprintf(" (%s, none of which could be judged)", unit.Count(l.Unknown, "runs"))
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
			text := fmt.Sprintf("%s at %s %s", unit.Number(e.Passing.Value), x, unit.Number(e.Fixed[x]))
			if but := s.shortAt(e); but != "" {
				text += " (but " + but + ")"
			}
			parts = append(parts, text)
		}
	}
	text := fmt.Sprintf("largest %s that passes: %s", y, strings.Join(parts, ", "))
	if !done {
		text += ", and the search is not at its end"
	}
	return text
}

// shortAt says how far what was achieved fell short of what was asked for at the
// passing side of an edge; empty where it did not.
func (s *search) shortAt(e Edge) string {
	if e.Passing == nil {
		return ""
	}
	point := []float64{e.Passing.Value}
	if len(s.plan.Axes) == 2 {
		point = []float64{e.Fixed[s.plan.Axes[0].Name], e.Passing.Value}
		if e.Axis == s.plan.Axes[0].Name {
			point = []float64{e.Passing.Value, e.Fixed[s.plan.Axes[1].Name]}
		}
	}
	at, _ := s.ratesAt(point, s.rate)
	if !at.Short {
		return ""
	}
	return fmt.Sprintf("only %s of the %s asked for were achieved", unit.Number(at.Achieved), unit.Text(at.Asked, s.unitOf(s.rate)))
}

// throughputSentence says the throughput, with two axes that of each column.
func (s *search) throughputSentence(all []Throughput) string {
	head := "throughput"
	if s.rate != "" {
		head += ", " + s.rate
	}
	done := true
	var parts []string
	for _, t := range all {
		done = done && t.Done
		text := s.throughputText(t)
		if len(s.plan.Axes) == 2 {
			x := s.plan.Axes[0].Name
			text = fmt.Sprintf("%s at %s %s", s.briefThroughput(t), x, unit.Number(t.Fixed[x]))
		}
		parts = append(parts, text)
	}
	text := head + ": " + strings.Join(parts, ", ")
	if len(all) == 1 && len(s.plan.Axes) == 1 && len(all[0].Bounds) > 0 {
		b := all[0].Bounds[0]
		text += fmt.Sprintf("; what limits it there is %s, by the diagnosis of %d of %d runs", b.Cause, b.Runs, all[0].Runs)
	}
	if !done {
		text += "; the search is not at its end"
	}
	return text + "."
}

// briefThroughput is a throughput in few words: "58.3 pods/s", "at least 200 pods/s".
func (s *search) briefThroughput(t Throughput) string {
	switch t.Shape {
	case Unmeasured:
		return "none measured"
	case Plateau:
		return unit.Text(t.Value, s.unitOf(s.rate))
	}
	return "at least " + unit.Text(t.Value, s.unitOf(s.rate))
}

// Short is a run on one line: "pods=3000: fail".
func (p Plan) Short(r Run) string {
	s := newSearch(p, []Run{r})
	text := fmt.Sprintf("%s: %s", s.pointText(r.Point), r.Verdict)
	if x, ok := r.rateOf(s.rate); ok && x.Asked > 0 {
		text += fmt.Sprintf(", %s: %s of %s", x.Name, unit.Number(x.Achieved), unit.Text(x.Asked, x.Unit))
	} else if ok {
		text += fmt.Sprintf(", %s: %s", x.Name, unit.Text(x.Achieved, x.Unit))
	}
	if r.Verdict != slo.Pass && r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}
