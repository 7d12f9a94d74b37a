package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// What a terminal shows at once.
const (
	shortWidth = 80
	shortLines = 40
)

// How many lines of a kind the short form has at most.
const (
	shortWarnings    = 3
	shortDifferences = 4
	shortCounters    = 4  // of those beyond chance
	shortPublished   = 3  // figures of others
	minTitle         = 20 // characters of a measure's title on one line
)

// Short writes what matters of the comparison for a terminal of 80 columns, in at
// most 40 lines: the answer first, then what the scenario asks for, then the surest and
// largest differences, judged ones before others. Rest says where the others are:
// "--all shows them".
func (c *Comparison) Short(w io.Writer, rest string) error {
	s := &short{}
	s.addText("windtunnel compare  "+c.Scenario, 1)
	s.addText("A  "+c.A.labelText("A"), 1)
	s.addText("B  "+c.B.labelText("B"), 1)
	s.addBlank()
	for _, h := range c.Headlines() {
		s.addText(h, 2)
	}
	s.addText(c.Conclusion(), 2)
	for i, warning := range c.Warnings {
		if i == shortWarnings {
			s.addText(fmt.Sprintf("! %s", unit.Count(len(c.Warnings)-i, "more warnings")), 1)
			break
		}
		s.addText("! "+warning, 3)
	}
	if len(c.A.LimitedBy)+len(c.B.LimitedBy) > 0 {
		s.addBlank()
		s.addText(limitedHead, 1)
		s.addText("  A  "+c.A.Limited(), 2)
		s.addText("  B  "+c.B.Limited(), 2)
	}
	s.addBlank()
	s.addText("DIFFERENT IN A AND B", 1)
	s.addTable(text.Table{Indent: "  ", Rows: shortenList(differenceRows(c.Differences), shortDifferences), Left: 4})
	end := c.shortEnd()
	left := shortLines - len(s.lines) - len(end) - 1
	s.lines = append(s.lines, c.shortRows(left, &rest)...)
	for _, line := range append(end, rest) {
		s.addText(line, 1)
	}
	if _, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// short collects lines that a terminal shows without wrapping.
type short struct{ lines []string }

func (s *short) addBlank() { s.lines = append(s.lines, "") }

// addText wraps a text, with what follows its first line indented, and cuts it after
// so many lines.
func (s *short) addText(line string, most int) {
	var out []string
	line = text.Clean(line)
	for room := shortWidth; utf8.RuneCountInString(line) > room; room = shortWidth - 2 {
		runes := []rune(line)
		if len(out) == most-1 {
			line = string(runes[:room-1]) + "…"
			break
		}
		at := room
		for at > room/2 && runes[at] != ' ' {
			at--
		}
		if at == room/2 {
			at = room
		}
		out, line = append(out, string(runes[:at])), strings.TrimSpace(string(runes[at:]))
	}
	for i, l := range append(out, line) {
		if i > 0 {
			l = "  " + l
		}
		s.lines = append(s.lines, strings.TrimRight(l, " "))
	}
}

// addTable adds a table, each row on one line.
func (s *short) addTable(t text.Table) {
	b := &strings.Builder{}
	t.Text(b)
	for line := range strings.Lines(b.String()) {
		s.addText(strings.TrimRight(line, "\n"), 1)
	}
}

// shortEnd is what stands below the table.
func (c *Comparison) shortEnd() []string {
	var out []string
	for i, f := range c.Published {
		if i == shortPublished {
			out = append(out, unit.Count(len(c.Published)-i, "more published figures")+".")
			break
		}
		out = append(out, fmt.Sprintf("%s: published %s; here %s.", f.Title, f.Text(), f.Here()))
	}
	for _, m := range c.Measures {
		if m.Apart && m.P > 0 {
			out = append(out, fmt.Sprintf("?: every run of B is beyond every run of A; chance alone: 1 in %.0f measures.", 1/m.P))
			break
		}
	}
	if equal, shown := c.CounterTally(); len(c.Counters) > 0 {
		out = append(out, fmt.Sprintf("%s: %d equal in all runs, %d beyond chance.", unit.Count(len(c.Counters), "counters"), equal, shown))
	} else if c.Counters == nil {
		out = append(out, c.counterSummary())
	}
	return out
}

// shortRows lists measures in so many lines: the scenario's own, then those that
// differ most surely and most, then judged ones. What is left out is counted in rest.
func (c *Comparison) shortRows(lines int, rest *string) []string {
	own, others, more := c.shortChoice()
	rows := slices.Concat(own, others)
	if len(rows) == 0 {
		return nil
	}
	lines -= 2 // a blank and the names of the columns
	if len(own) > 0 && len(others) > 0 {
		lines--
	}
	shown, after := wrappedRows(rows, len(own), lines, titleRoom(rows))
	listed := len(shown)
	if listed > 0 && listed < len(rows) { // the others made the columns wider
		shown, after = wrappedRows(rows, len(own), lines, titleRoom(rows[:listed]))
	}
	more += len(rows) - len(shown)
	if more > 0 {
		*rest = unit.Count(more, "more measures") + ": " + *rest
	}
	if len(shown) == 0 {
		return nil
	}
	s := &short{}
	s.addTable(text.Table{Head: []string{"B is", "measure", "A", "B", "change, 95 %"}, Rows: slices.Concat(shown...), Left: 2})
	out := []string{""}
	for i, line := range s.lines {
		if i == after+1 && after > 0 && len(shown) > len(own) {
			out = append(out, "")
		}
		out = append(out, line)
	}
	return out
}

// shortChoice chooses the measures and counters that the short form lists: the scenario's
// own, and others in order of weight; more is how many it leaves out.
func (c *Comparison) shortChoice() (own, others [][]string, more int) {
	var differing, apart, judged [][]string
	for _, m := range c.Measures {
		switch row := shortRow(m); {
		case m.Outcome == Same || m.Outcome == Equivalent && !m.Own:
			more++
		case m.Own && !m.Besides:
			own = append(own, row)
		case m.Differs():
			differing = append(differing, row)
		case !m.Besides && m.Apart:
			judged = append(judged, row)
		case m.Apart:
			apart = append(apart, row)
		case !m.Besides:
			others = append(others, row)
		default:
			more++
		}
	}
	var counted [][]string
	for _, k := range slices.SortedStableFunc(slices.Values(c.Counters), byUse) {
		row := []string{k.Word(), k.Name, FormatCounts(k.A), FormatCounts(k.B), k.Change()}
		switch {
		case k.Own && k.State != Equal:
			own = append(own, row)
		case k.Shown && !k.Own && len(counted) < shortCounters:
			row[0] = "differs"
			counted = append(counted, row)
		}
	}
	return own, slices.Concat(differing, counted, judged, apart, others), more
}

// shortRow is a measure's line: with its interval where there is one, which tells more
// than its middle.
func shortRow(m Measure) []string {
	change := "–"
	switch {
	case m.Outcome == Same:
		change = "0"
	case m.Interval != nil:
		change = formatEnds(*m.Interval)
	case m.Ratio != nil:
		change = FormatChange(*m.Ratio)
	}
	return []string{m.Word(), m.Title, shortValue(m.A.Median, m.Unit), shortValue(m.B.Median, m.Unit), change}
}

// shortValue writes a value without the word for what is counted, which the title tells.
func shortValue(v float64, of string) string {
	switch {
	case slices.Contains([]string{"seconds", "bytes", "ratio", "ms/pod", "cores"}, of):
		return unit.Text(v, of)
	case strings.HasSuffix(of, "/s"):
		return unit.Number(v) + "/s"
	}
	return unit.Number(v)
}

// formatEnds writes an interval of a ratio, its unit once where that is enough:
// "-37 to -25 %".
func formatEnds(of [2]float64) string {
	lo, hi := FormatChange(of[0]), FormatChange(of[1])
	if strings.HasSuffix(hi, " %") {
		lo = strings.TrimSuffix(lo, " %")
	}
	return lo + " to " + hi
}

// titleRoom is how wide titles may be so that a row stands on one line of the terminal.
func titleRoom(rows [][]string) int {
	taken := 0
	for i := range rows[0] {
		widest := len("change, 95 %")
		if i < 4 {
			widest = len("B is")
		}
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		if i != 1 {
			taken += widest + 2
		}
	}
	return max(minTitle, shortWidth-taken)
}

// wrappedRows are as many rows as stand in so many lines, each with its title wrapped; the
// first own of them take ownLines.
func wrappedRows(rows [][]string, own, lines, room int) (out [][][]string, ownLines int) {
	for i, row := range rows {
		wrapped := wrappedRow(row, room)
		if lines -= len(wrapped); lines < 0 {
			break
		}
		if out = append(out, wrapped); i < own {
			ownLines += len(wrapped)
		}
	}
	return out, ownLines
}

// wrappedRow is a row with its title on as many lines as it needs: what is left out of a
// title may be what tells it from another.
func wrappedRow(row []string, room int) [][]string {
	title := text.Clean(row[1])
	if utf8.RuneCountInString(title) > room {
		room -= 2 // of the indentation of further lines
	}
	var out [][]string
	for i, line := range text.Wrap(breakWords(title, room), room) {
		next := make([]string, len(row))
		if i == 0 {
			copy(next, row)
		} else {
			line = "  " + line
		}
		next[1] = line
		out = append(out, next)
	}
	return out
}

// breakWords breaks words that are wider than a line.
func breakWords(s string, width int) string {
	words := strings.Fields(s)
	for i, w := range words {
		var parts []string
		for r := []rune(w); len(r) > 0; r = r[min(width, len(r)):] {
			parts = append(parts, string(r[:min(width, len(r))]))
		}
		words[i] = strings.Join(parts, " ")
	}
	return strings.Join(words, " ")
}
