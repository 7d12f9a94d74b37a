package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// describeOutcome says the outcome of a measure in words.
func (c *comparing) describeOutcome(m Measure) string {
	switch m.Outcome {
	case Same:
		return fmt.Sprintf("%s is %s in all runs", m.Title, unit.Text(m.A.Median, m.Unit))
	case Equivalent:
		return fmt.Sprintf("%s is equivalent: %s in %s", m.Title, formatInterval(*m.Interval), c.o.NameB)
	case Inconclusive:
		return m.Title + " is inconclusive: " + c.describeInconclusive(m)
	}
	if m.Ratio == nil {
		return fmt.Sprintf("%s is %s in %s: %s in place of %s (%s)", m.Title, higherOrLower(m.isHigherInB()), c.o.NameB,
			unit.Text(m.B.Median, m.Unit), unit.Text(m.A.Median, m.Unit), c.runsEach())
	}
	lo, hi := m.Interval[0], m.Interval[1]
	if *m.Ratio >= 2 {
		return fmt.Sprintf("%s is %s times as high in %s (%s to %s, %s)", m.Title,
			twoDigits(*m.Ratio), c.o.NameB, twoDigits(lo), twoDigits(hi), c.runsEach())
	}
	if *m.Ratio < 1 {
		lo, hi = hi, lo
	}
	if *m.Ratio <= manyfold && m.Interval[0] > 0 {
		return fmt.Sprintf("%s is lower by a factor of %s in %s (%s to %s, %s)", m.Title,
			twoDigits(1 / *m.Ratio), c.o.NameB, twoDigits(1/lo), twoDigits(1/hi), c.runsEach())
	}
	return fmt.Sprintf("%s is %s %s in %s (%s to %s, %s)", m.Title, percentText(*m.Ratio-1), higherOrLower(m.isHigherInB()),
		c.o.NameB, percentDigits(lo-1), percentText(hi-1), c.runsEach())
}

// describeInconclusive says what the runs cannot tell and what would.
func (c *comparing) describeInconclusive(m Measure) string {
	if m.Ratio == nil {
		return fmt.Sprintf("%s in %s, %s in %s, and no share of nothing can be taken", unit.Text(m.A.Median, m.Unit), c.o.NameA,
			unit.Text(m.B.Median, m.Unit), c.o.NameB)
	}
	more := fmt.Sprintf("about %s each would show %s", unit.Count(m.Runs, "runs"), percentText(m.Effect))
	if m.Runs >= stats.MaxRuns {
		more = fmt.Sprintf("%s each would not show %s", unit.Count(stats.MaxRuns, "runs"), percentText(m.Effect))
	}
	switch {
	case m.Runs == 0:
		return fmt.Sprintf("%s cannot show any difference; at least %s each can", c.runsEach(), unit.Count(MinRuns(), "runs"))
	case m.Visible == nil:
		return fmt.Sprintf("%s cannot show any difference; %s", c.runsEach(), more)
	case *m.Visible > m.Effect:
		return fmt.Sprintf("%s can only show differences above %s; %s", c.runsEach(), percentText(*m.Visible), more)
	}
	return fmt.Sprintf("%s in %s is possible; more runs would narrow that", formatInterval(*m.Interval), c.o.NameB)
}

// warnOfFewRuns says that so few runs show nothing, and how many would.
func (c *comparing) warnOfFewRuns() {
	if min(c.a, len(c.runs)-c.a) < MinRuns() {
		c.addWarning("%s cannot show any difference: %s.", c.runsEach(), WouldDo())
	}
}

// WouldDo says how many runs a side can show a difference where fewer cannot.
func WouldDo() string {
	return fmt.Sprintf("with so few runs, chance alone separates the sides too often (%d each can show one in judged measures and those of --measure, %d in all)", MinRuns(), MinRunsBesides())
}

// runsEach says how many runs there are: "10 runs each", "10 and 9 runs".
func (c *comparing) runsEach() string {
	a, b := c.a, len(c.runs)-c.a
	switch {
	case a != b:
		return fmt.Sprintf("%d and %d runs", a, b)
	case a == 1:
		return "1 run each"
	}
	return fmt.Sprintf("%s each", unit.Count(a, "runs"))
}

func higherOrLower(rises bool) string {
	if rises {
		return "higher"
	}
	return "lower"
}

// formatInterval says an interval of a ratio that holds 1, or nearly: "3 % lower to 4 % higher".
func formatInterval(of [2]float64) string {
	end := func(v float64) string { return percentText(v-1) + " " + higherOrLower(v >= 1) }
	return end(of[0]) + " to " + end(of[1])
}

// percentText writes the size of a share with two digits: "4.3 %", "18 %".
func percentText(share float64) string { return percentDigits(share) + " %" }

func percentDigits(share float64) string { return twoDigits(100 * math.Abs(share)) }

// twoDigits writes a number with two significant digits, whole from 10 up.
func twoDigits(v float64) string {
	if v >= 9.95 {
		return unit.Number(math.Round(v))
	}
	if v < 0.05 {
		return "0"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// manyfold is the ratio from which on a fall is said as a factor: "-98 %" and
// "-100 %" would not tell a hundredth from a thousandth.
const manyfold = 0.1

// FormatChange writes a ratio as a change: "+18 %", "-4.3 %", "×3.2", "÷61".
func FormatChange(ratio float64) string {
	switch size := percentText(ratio - 1); {
	case ratio >= 2:
		return "×" + twoDigits(ratio)
	case ratio > 0 && ratio <= manyfold:
		return "÷" + twoDigits(1/ratio)
	case size == percentText(0):
		return size
	case ratio < 1:
		return "-" + size
	default:
		return "+" + size
	}
}

// maxInconclusive is how many measures of which the runs cannot tell have a
// sentence each; of more there is one for all.
const maxInconclusive = 3

// Findings are the sentences that a reader needs beside the table: every
// difference that the runs show, and what they cannot tell, few sentences
// however many measures there are.
func (c *Comparison) Findings() (found, inconclusive []string) {
	var open []Measure
	for _, m := range c.Measures {
		switch {
		case m.Differs():
			found = append(found, string(m.Outcome)+": "+m.Sentence)
		case m.Outcome == Inconclusive:
			open, inconclusive = append(open, m), append(inconclusive, m.Sentence)
		}
	}
	if len(open) <= maxInconclusive {
		return found, inconclusive
	}
	least, most, runs := math.Inf(1), 0.0, [2]int{stats.MaxRuns, 0}
	for _, m := range open {
		if m.Visible == nil {
			return found, []string{fmt.Sprintf("%s %s inconclusive, for example %s", unit.Count(len(open), "measures"), unit.Verb(len(open), "is", "are"), open[0].Sentence)}
		}
		least, most = min(least, *m.Visible), max(most, *m.Visible)
		runs = [2]int{min(runs[0], m.Runs), max(runs[1], m.Runs)}
	}
	return found, []string{fmt.Sprintf("%s are inconclusive: so many runs show differences above %s to %s; %d to %d runs each would show %s",
		unit.Count(len(open), "measures"), percentDigits(least), percentText(most), runs[0], runs[1], percentText(open[0].Effect))}
}

// maxHeadlines is how many measures stand above all others.
const maxHeadlines = 3

// Headlines are the measures that answer what most comparisons are made for, in a
// line each: the scenario's own, then throughput, then the rest of what is judged, of
// those that differ or lie apart. "pods running per second: 19.4 pods/s in A, 99.4 pods/s
// in B, ×5.1 (better?)"
func (c *Comparison) Headlines() (out []string) {
	rank := func(m Measure) int {
		switch {
		case m.Own:
			return 0
		case m.Better == Higher:
			return 1
		}
		return 2
	}
	first := slices.DeleteFunc(slices.Clone(c.Measures), func(m Measure) bool { return m.Besides || !m.Differs() && !m.Apart })
	slices.SortStableFunc(first, func(a, b Measure) int { return cmp.Compare(rank(a), rank(b)) })
	for _, m := range first[:min(len(first), maxHeadlines)] {
		change := ""
		if m.Ratio != nil {
			change = ", " + FormatChange(*m.Ratio)
		}
		out = append(out, fmt.Sprintf("%s: %s in A, %s in B%s (%s)", m.Title, unit.Text(m.A.Median, m.Unit), unit.Text(m.B.Median, m.Unit), change, m.Word()))
	}
	return out
}

// Conclusion says in one sentence what came out of it.
func (c *Comparison) Conclusion() string {
	if g := c.Gate; g != nil {
		return g.describeGate(c)
	}
	n, apart := map[Outcome]int{}, 0
	for _, m := range c.Measures {
		if n[m.Outcome]++; m.Apart {
			apart++
		}
	}
	if len(c.Measures) == 0 {
		return "No measure could be compared."
	}
	out := fmt.Sprintf("Measures in %s: %d worse, %d better, ", c.B.Name, n[Worse], n[Better])
	if moved := n[Risen] + n[Fallen]; moved > 0 {
		out += fmt.Sprintf("%d other, ", moved)
	}
	out += fmt.Sprintf("%d equivalent or equal, %d inconclusive", n[Equivalent]+n[Same], n[Inconclusive])
	if apart > 0 {
		out += fmt.Sprintf(" (%d of them with every run of B beyond every run of A)", apart)
	}
	return out + "."
}

// describeGate says what the gate found.
func (g *Gate) describeGate(c *Comparison) string {
	bound := percentText(g.FailAbove)
	switch g.Verdict {
	case slo.Fail:
		return fmt.Sprintf("FAIL: %s worse by more than %s in %s.", unit.Count(len(g.Failed), "measures")+" "+unit.Verb(len(g.Failed), "is", "are"), bound, c.B.Name)
	case slo.Pass:
		return fmt.Sprintf("PASS: no measure is worse by more than %s in %s.", bound, c.B.Name)
	}
	if len(g.Inconclusive) == 0 {
		return fmt.Sprintf("UNKNOWN: no measure could be compared with the bound of %s.", bound)
	}
	return fmt.Sprintf("UNKNOWN: %s may be worse by more than %s in %s; none is certain to be.",
		unit.Count(len(g.Inconclusive), "measures"), bound, c.B.Name)
}
