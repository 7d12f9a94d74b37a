package capacity

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// terminal is how wide lines of words are, in columns.
const terminal = 80

// JSON writes the state with its result.
func (s State) JSON(w io.Writer) error {
	if err := text.JSON(w, s); err != nil {
		return fmt.Errorf("write search: %w", err)
	}
	return nil
}

// Write writes the result for a terminal, or for a comment where markdown is set.
func (s State) Write(w io.Writer, markdown bool) error {
	b := &strings.Builder{}
	head, bold, item := "windtunnel search  %s\n", "%s\n", "! %s\n"
	if markdown {
		head, bold, item = "### windtunnel search: %s\n\n", "**%s**\n", "- :warning: %s\n"
	}
	clean := func(v string) string {
		if markdown {
			return text.Escape(v)
		}
		return text.Clean(v)
	}
	fmt.Fprintf(b, head, clean(s.Scenario))
	if s.Plan.Goal != Objectives {
		fmt.Fprintf(b, "goal: %s\n", s.Plan.Goal)
	}
	for _, a := range s.Plan.Axes {
		kind := "linear"
		if a.Log {
			kind = "logarithmic"
		}
		fmt.Fprintf(b, "%s from %s to %s, %s, %s apart\n", clean(a.Name), unit.Number(a.From), unit.Number(a.To), kind, unit.Text(s.Plan.Resolution, "ratio"))
	}
	wrapped := func(format, v string) {
		v = fmt.Sprintf(strings.TrimSuffix(format, "\n"), clean(v))
		if !markdown {
			v = strings.Join(text.Wrap(v, terminal), "\n")
		}
		b.WriteString(v + "\n")
	}
	b.WriteString("\n")
	wrapped(bold, s.Result.Sentence)
	if len(s.Result.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, warning := range s.Result.Warnings {
		wrapped(item, warning)
	}
	b.WriteString("\n")
	table := func(rows [][]string) {
		if t := (text.Table{Head: rows[0], Rows: rows[1:]}); markdown {
			t.Markdown(b)
		} else {
			t.Text(b)
		}
	}
	if len(s.Plan.Axes) == 2 && len(s.Result.Throughputs) > 0 {
		table(s.frontierRows())
		b.WriteString("\n")
		for _, line := range s.limitNotes() {
			wrapped("%s\n", line)
		}
	}
	for _, line := range s.columnNotes() {
		wrapped("%s\n", line)
	}
	table(s.tableRows())
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write search: %w", err)
	}
	return nil
}

// widest is the head that a column of the table may have.
const widest = 20

// limitColumn is the head of the objective that limits: its name, where there is room.
func (s State) limitColumn() string {
	if name := s.Result.Limit.Objective; utf8.RuneCountInString(name) <= widest {
		return name
	}
	return "value"
}

// columnNotes say what columns of the table are of, and an empty line.
func (s State) columnNotes() (out []string) {
	if s.Result.Rate != "" {
		out = append(out, fmt.Sprintf("asked, achieved: %s, in %s", s.Result.Rate, s.Result.RateUnit))
	}
	if l := s.Result.Limit; l != nil && s.limitColumn() != l.Objective {
		out = append(out, "value: "+l.Objective)
	}
	if out != nil {
		out = append(out, "")
	}
	return out
}

// tableRows list each point that was flown, with its verdicts, what was asked for and
// achieved, and what it came to in the objective that limits.
func (s State) tableRows() [][]string {
	var head []string
	for _, a := range s.Plan.Axes {
		head = append(head, a.Name)
	}
	head = append(head, "runs", "passed", "failed", "unknown")
	if s.Result.Rate != "" {
		head = append(head, "asked", "achieved")
	}
	if s.Result.Limit != nil {
		head = append(head, s.limitColumn())
	}
	out := [][]string{head}
	for _, p := range newSearch(s.Plan, s.Runs).flownPoints() {
		out = append(out, s.tableRow(p))
	}
	return out
}

func (s State) tableRow(point []float64) []string {
	var t tally
	var values []float64
	for _, r := range s.Runs {
		if !slices.Equal(r.Point, point) {
			continue
		}
		t.countVerdict(r.Verdict)
		if s.Result.Limit != nil {
			if v := r.valueOf(s.Result.Limit.Objective); v != nil {
				values = append(values, *v)
			}
		}
	}
	var row []string
	for _, v := range point {
		row = append(row, unit.Number(v))
	}
	for _, n := range []int{t.total(), t.passed, t.failed, t.unknown} {
		row = append(row, fmt.Sprint(n))
	}
	if s.Result.Rate != "" {
		row = append(row, s.rateCells(point)...)
	}
	switch {
	case s.Result.Limit == nil:
	case len(values) == 0:
		row = append(row, "–")
	default:
		row = append(row, unit.Text(stats.Median(values).Value, s.Result.Limit.Unit))
	}
	return row
}

// rateCells returns what was asked for and achieved at a point.
func (s State) rateCells(point []float64) []string {
	i := slices.IndexFunc(s.Result.Points, func(p RatePoint) bool { return slices.Equal(p.Point, point) })
	if i < 0 {
		return []string{"–", "–"}
	}
	at, asked := s.Result.Points[i], "–"
	if at.Asked > 0 {
		asked = unit.Number(at.Asked)
	}
	return []string{asked, unit.Number(at.Achieved)}
}

// frontierRows lists the throughput of each value of the first axis.
func (s State) frontierRows() [][]string {
	x, y := s.Plan.Axes[0].Name, s.Plan.Axes[1].Name
	out := [][]string{{x, "throughput", "95 % interval", "runs", "from " + y}}
	about := newSearch(s.Plan, s.Runs)
	for _, t := range s.Result.Throughputs {
		interval, from := "–", "–"
		if t.Interval != nil {
			interval = unit.Number(max(0, t.Interval[0])) + " to " + unit.Number(t.Interval[1])
		}
		if t.Shape == Plateau {
			from = unit.Number(t.From)
		}
		out = append(out, []string{unit.Number(t.Fixed[x]), about.briefThroughput(t), interval, fmt.Sprint(t.Runs), from})
	}
	return out
}

// limitNotes say what limited the plane at which values of the first axis, and an
// empty line.
func (s State) limitNotes() (out []string) {
	at := map[string][]string{}
	for _, t := range s.Result.Throughputs {
		if len(t.Bounds) > 0 {
			at[t.Bounds[0].Cause] = append(at[t.Bounds[0].Cause], unit.Number(t.Fixed[s.Plan.Axes[0].Name]))
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(at)) {
		out = append(out, fmt.Sprintf("limited, by the diagnosis, at %s %s: %s", s.Plan.Axes[0].Name, strings.Join(at[cause], ", "), cause))
	}
	if out != nil {
		out = append(out, "")
	}
	return out
}
