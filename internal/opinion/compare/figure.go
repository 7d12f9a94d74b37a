package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Figure is what others published of a measure, beside what was measured here: the
// values of one or both sides, or the change from A to B.
type Figure struct {
	Measure string   `json:"measure"` // as in verdict.json
	Title   string   `json:"title"`
	Unit    string   `json:"unit,omitempty"`
	A       *float64 `json:"a,omitempty"`
	B       *float64 `json:"b,omitempty"`
	Change  *float64 `json:"change,omitempty"` // as a share of A: -0.5, half as much

	HereA       *float64 `json:"here_a,omitempty"` // median; nil: not every run has the measure
	HereB       *float64 `json:"here_b,omitempty"`
	HereUnit    string   `json:"here_unit,omitempty"`
	Source      string   `json:"source"`
	Differences string   `json:"differences,omitempty"`

	interval *[2]float64 // of the factor here
}

// figures lists the published figures that hold for all runs of a side, or of both.
func (c *comparing) figures() (out []Figure) {
	first := c.runs[0].Published
	for i := range first {
		at := func(runs []Run) (p scenario.Published, same bool) {
			for k, r := range runs {
				if i >= len(r.Published) || !alike(r.Published[i], first[i]) || k > 0 && !holdsAlike(r.Published[i], p) {
					return p, false
				}
				p = r.Published[i]
			}
			return p, true
		}
		a, okA := at(c.runs[:c.a])
		b, okB := at(c.runs[c.a:])
		if f, holds := newFigure(a, b); okA && okB && holds {
			out = append(out, c.besideFigure(f))
		}
	}
	return out
}

// alike says whether two are one figure, whatever holds of it.
func alike(p, q scenario.Published) bool {
	return p.Measure == q.Measure && p.Source == q.Source && p.Unit == q.Unit && (p.Change == nil) == (q.Change == nil)
}

// holdsAlike says whether one figure holds in two runs in the same way.
func holdsAlike(p, q scenario.Published) bool {
	return p.When == q.When && p.From == q.From && p.To == q.To && p.Value == q.Value
}

// newFigure returns what was published of two sides.
func newFigure(a, b scenario.Published) (f Figure, holds bool) {
	f = Figure{Measure: a.Measure, Source: a.Source, Differences: a.Differences}
	if a.Change != nil {
		change, ok := a.ChangeBetween(b)
		f.Change = &change
		return f, ok
	}
	f.Unit = a.Unit
	if a.When {
		f.A = &a.Value
	}
	if b.When {
		f.B = &b.Value
	}
	return f, bool(a.When || b.When)
}

// besideFigure adds what was measured here.
func (c *comparing) besideFigure(f Figure) Figure {
	m, known := c.runs[0].Judgement.Measures[f.Measure]
	f.Title, f.HereUnit = keyWords(f.Measure), m.Unit
	if known {
		f.Title = measureTitle(f.Measure, m)
	}
	if all, everywhere := c.valuesOf(f.Measure); everywhere && SameMachine(c.runs[0], c.runs[len(c.runs)-1]) {
		a, b := stats.Median(all[:c.a]).Value, stats.Median(all[c.a:]).Value
		f.HereA, f.HereB = &a, &b
	}
	if i := slices.IndexFunc(c.out.Measures, func(m Measure) bool { return m.Key == f.Measure }); i >= 0 {
		f.interval = c.out.Measures[i].Interval
	}
	return f
}

// Here says what was measured, in the words of the published figure: values of the sides
// that have one, or the change with its interval.
func (f Figure) Here() string {
	switch {
	case f.HereA == nil || f.HereB == nil:
		return "not compared"
	case f.Change == nil:
		return f.sides(f.HereA, f.HereB, f.HereUnit)
	case *f.HereA <= 0 || *f.HereB < 0:
		return f.sides(f.HereA, f.HereB, f.HereUnit)
	}
	change := FormatChange(*f.HereB / *f.HereA)
	if f.interval != nil {
		change += " (" + FormatChange(f.interval[0]) + " to " + FormatChange(f.interval[1]) + ")"
	}
	return change
}

// Text says what was published.
func (f Figure) Text() string {
	if f.Change != nil {
		return FormatChange(1 + *f.Change)
	}
	return f.sides(f.A, f.B, f.Unit)
}

// sides writes the values of those sides that have a published one.
func (f Figure) sides(a, b *float64, of string) string {
	var out []string
	if f.Change != nil || f.A != nil {
		out = append(out, unit.Text(*a, of)+" in A")
	}
	if f.Change != nil || f.B != nil {
		out = append(out, unit.Text(*b, of)+" in B")
	}
	return strings.Join(out, ", ")
}

// figureLines are the figures, one line each, and what differs.
func (c *Comparison) figureLines() (out []string) {
	for _, f := range c.Published {
		line := fmt.Sprintf("%s: here %s, published %s (%s)", f.Title, f.Here(), f.Text(), f.Source)
		if f.Differences != "" {
			line += ". " + text.Sentence(f.Differences)
		}
		out = append(out, line)
	}
	return out
}
