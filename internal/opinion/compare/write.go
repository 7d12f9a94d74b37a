package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// How many rows of a kind are listed; the rest is counted, and in the JSON.
const listed = 20

// limitedHead stands above what limited each side.
const limitedHead = "LIMITED BY (SHARE OF LOAD TIME IN BRACKETS)"

// JSON writes the comparison with everything that is known.
func (c *Comparison) JSON(w io.Writer) error {
	if err := text.JSON(w, c); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// Text writes all of the comparison, as wide as it is.
func (c *Comparison) Text(w io.Writer) error {
	b := &strings.Builder{}
	line := func(format string, args ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
	}
	found, inconclusive := c.Findings()
	line("windtunnel compare  %s", text.Clean(c.Scenario))
	line("A  %s", text.Clean(c.A.labelText("A")))
	line("B  %s", text.Clean(c.B.labelText("B")))
	line("")
	for _, h := range c.Headlines() {
		line("%s", text.Clean(h))
	}
	line("%s", text.Clean(c.Conclusion()))
	if len(c.Warnings) > 0 {
		line("")
		for _, s := range c.Warnings {
			line("! %s", text.Clean(s))
		}
	}
	line("")
	line(limitedHead)
	line("  A  %s", text.Clean(c.A.Limited()))
	line("  B  %s", text.Clean(c.B.Limited()))
	line("")
	line("DIFFERENT IN A AND B")
	text.Table{Indent: "  ", Rows: differenceRows(c.Differences), Left: 4}.Text(b)
	line("  %s", c.pinnedText())
	line("")
	line("COUNTERS (INDEPENDENT OF THE HOST)")
	line("  %s", c.counterSummary())
	if rows := c.counterRows(); len(rows) > 0 {
		text.Table{Indent: "  ", Head: []string{"", "counter", "A", "B", "change"}, Rows: rows, Left: 2}.Text(b)
	}
	if len(c.Measures) > 0 {
		line("")
		line("MEASURES")
		text.Table{Indent: "  ", Head: []string{"B is", "measure", "A", "B", "change", "95 % interval", "P"}, Rows: measureRows(c.Measures), Left: 2}.Text(b)
		line("")
		for _, f := range slices.Concat(firstOf(found), inconclusive) {
			line("- %s.", text.Clean(f))
		}
	}
	if len(c.Published) > 0 {
		line("")
		line("PUBLISHED FIGURES")
		for _, f := range c.figureLines() {
			line("  %s", text.Clean(f))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// Markdown writes the comparison for a pull request's comment: what came out of
// it first, the rest folded.
func (c *Comparison) Markdown(w io.Writer) error {
	b := &strings.Builder{}
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	table := func(head []string, rows [][]string) {
		if len(rows) > 0 {
			text.Table{Head: head, Rows: rows, Left: 2}.Markdown(b)
			line("")
		}
	}
	line("### windtunnel: %s\n", text.Escape(c.Scenario))
	for _, h := range c.Headlines() {
		line("- **%s**", text.Escape(h))
	}
	line("\n**%s**\n", text.Escape(c.Conclusion()))
	line("A is %s, B is %s.\n", text.Escape(c.A.labelText("A")), text.Escape(c.B.labelText("B")))
	line("- limited by (share of load time in brackets): in A %s; in B %s", text.Escape(c.A.Limited()), text.Escape(c.B.Limited()))
	found, inconclusive := c.Findings()
	for _, f := range firstOf(found) {
		line("- %s", text.Escape(f))
	}
	for _, s := range c.Warnings {
		line("- :warning: %s", text.Escape(s))
	}
	line("\n%s\n", text.Escape(c.counterSummary()))
	table([]string{"", "counter", "A", "B", "change"}, c.counterRows())
	head := []string{"B is", "measure", "A", "B", "change", "95 % interval", "p, corrected"}
	table(head, measureRows(c.differingMeasures(true)))
	for _, f := range c.figureLines() {
		line("- published: %s", text.Escape(f))
	}
	line("<details><summary>Configuration that differs, and the other measures</summary>\n")
	text.Table{Head: []string{"fact", "A", "B", ""}, Rows: differenceRows(c.Differences), Left: 4}.Markdown(b)
	line("")
	line("%s\n", c.pinnedText())
	for _, f := range inconclusive {
		line("- %s", text.Escape(f))
	}
	line("")
	rest := c.differingMeasures(false)
	shown := slices.DeleteFunc(slices.Clone(rest), func(m Measure) bool { return m.Besides && !m.Apart && !m.Own })
	table(head, measureRows(shown))
	if left := len(rest) - len(shown); left > 0 {
		line("%s that are not judged and do not differ.\n", unit.Count(left, "more measures"))
	}
	line("</details>")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// labelText says what a side is: "limiter=5/10, 3 runs".
func (s Side) labelText(letter string) string {
	runs := unit.Count(len(s.Runs), "runs")
	if s.Name == letter {
		return runs
	}
	return s.Name + ", " + runs
}

// pinnedText says how much of the manifests was found to be the same.
func (c *Comparison) pinnedText() string {
	return unit.Count(c.EqualFacts, "other facts") + " of the manifests: the same in all runs."
}

func differenceRows(all []Difference) [][]string {
	var out [][]string
	for _, d := range all {
		asked := ""
		if d.Asked {
			asked = "asked for"
		}
		out = append(out, []string{d.Fact, d.A, d.B, asked})
	}
	if out == nil {
		out = append(out, []string{"nothing: the runs are repetitions of each other", "", "", ""})
	}
	return out
}

// counterSummary says in a sentence how the counters compare.
func (c *Comparison) counterSummary() string {
	if c.Counters == nil {
		return "The counters are unknown: not every run has its records."
	}
	equal, shown := c.CounterTally()
	return fmt.Sprintf("%s: %d equal in all runs, %d not, of which %d differ between A and B beyond chance.",
		unit.Count(len(c.Counters), "counters"), equal, len(c.Counters)-equal, shown)
}

// counterRows lists the scenario's own counts, then the counters that differ
// beyond chance, then those that have one value in A and another in B, which few
// runs may have by chance.
func (c *Comparison) counterRows() [][]string {
	var own, shown, differ [][]string
	for _, k := range slices.SortedStableFunc(slices.Values(c.Counters), byUse) {
		row := []string{k.Word(), k.Name + " (" + k.Unit + ")", FormatCounts(k.A), FormatCounts(k.B), k.Change()}
		switch {
		case k.Own:
			own = append(own, row)
		case k.Shown:
			shown = append(shown, row)
		case k.State == Differs:
			differ = append(differ, row)
		}
	}
	return slices.Concat(own, shortenList(shown, listed), shortenList(differ, listed))
}

// firstOf cuts a list of sentences: the table has them all.
func firstOf(sentences []string) []string {
	if left := len(sentences) - listed; left > 1 {
		return append(sentences[:listed:listed], "the table has "+unit.Count(left, "more differences"))
	}
	return sentences
}

// differingMeasures returns the measures that differ beyond chance, or the others.
func (c *Comparison) differingMeasures(want bool) (out []Measure) {
	for _, m := range c.Measures {
		if m.Differs() == want {
			out = append(out, m)
		}
	}
	return out
}

// shortenList cuts a list and says how many rows are left.
func shortenList(rows [][]string, to int) [][]string {
	left := len(rows) - to
	if left <= 1 {
		return rows
	}
	last := make([]string, len(rows[0]))
	last[0], last[1] = rows[to][0], fmt.Sprintf("%d more", left)
	return append(rows[:to:to], last)
}

func measureRows(all []Measure) [][]string {
	var out [][]string
	for _, m := range all {
		change, interval, p := "–", "–", "–"
		if m.Ratio != nil {
			change = FormatChange(*m.Ratio)
		}
		if m.Interval != nil {
			interval = FormatChange(m.Interval[0]) + " to " + FormatChange(m.Interval[1])
		}
		if m.Outcome == Same {
			change, interval = "0", "–"
		} else {
			p = formatP(m.Corrected)
		}
		out = append(out, []string{m.Word(), m.Title, unit.Text(m.A.Median, m.Unit), unit.Text(m.B.Median, m.Unit), change, interval, p})
	}
	return out
}

// formatP writes a p-value.
func formatP(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
