package capacity

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

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
	for _, a := range s.Plan.Axes {
		kind := "linear"
		if a.Log {
			kind = "logarithmic"
		}
		fmt.Fprintf(b, "%s from %s to %s, %s, %s apart\n", clean(a.Name), unit.Number(a.From), unit.Number(a.To), kind, unit.Text(s.Plan.Resolution, "ratio"))
	}
	fmt.Fprintf(b, "\n"+bold, clean(s.Result.Sentence))
	if len(s.Result.Warnings) > 0 {
		b.WriteString("\n")
	}
	for _, warning := range s.Result.Warnings {
		fmt.Fprintf(b, item, clean(warning))
	}
	b.WriteString("\n")
	rows := s.rows()
	if t := (text.Table{Head: rows[0], Rows: rows[1:]}); markdown {
		t.Markdown(b)
	} else {
		t.Text(b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write search: %w", err)
	}
	return nil
}

// rows list each point that was flown, with its verdicts and what it came to in
// the objective that limits.
func (s State) rows() [][]string {
	var head []string
	for _, a := range s.Plan.Axes {
		head = append(head, a.Name)
	}
	head = append(head, "runs", "passed", "failed", "unknown")
	if s.Result.Limit != nil {
		head = append(head, s.Result.Limit.Objective)
	}
	out := [][]string{head}
	var points [][]float64
	for _, r := range s.Runs {
		if !slices.ContainsFunc(points, func(p []float64) bool { return slices.Equal(p, r.Point) }) {
			points = append(points, r.Point)
		}
	}
	slices.SortFunc(points, slices.Compare)
	for _, p := range points {
		out = append(out, s.row(p))
	}
	return out
}

func (s State) row(point []float64) []string {
	var t tally
	var values []float64
	for _, r := range s.Runs {
		if !slices.Equal(r.Point, point) {
			continue
		}
		t.count(r.Verdict)
		if s.Result.Limit != nil {
			if v := r.value(s.Result.Limit.Objective); v != nil {
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
	switch {
	case s.Result.Limit == nil:
	case len(values) == 0:
		row = append(row, "–")
	default:
		row = append(row, unit.Text(stats.Median(values).Value, s.Result.Limit.Unit))
	}
	return row
}
