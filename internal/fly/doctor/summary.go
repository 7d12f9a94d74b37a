package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The size of a summary: a terminal of 80 columns and 24 lines. The reason of exit code 3
// and the shell's prompt take two.
const (
	summaryWidth = 79
	summaryLines = 22
)

// Summary writes what fits on a screen: what is not fine with its remedy, what every
// reader asks for, and how much the machine holds. Table has the rest.
func (r Report) Summary(w io.Writer, colour func(State, string) string) error {
	head := []string{colour(r.State, r.Sentence()), ""}
	for _, c := range r.Checks {
		if c.State == Fine && slices.Contains([]string{"control plane", "cores", "memory"}, c.Name) {
			head = append(head, cutLine(fmt.Sprintf("%-13s  %s", c.Name, c.Found)))
		}
	}
	tail := []string{"", "Estimated capacity of this machine, for each kind alone:"}
	for _, h := range r.Holds {
		tail = append(tail, fmt.Sprintf("%9s  %s (limited by %s)", unit.Number(h.Count), h.What, h.Bound))
	}
	tail = append(tail, fmt.Sprintf("windtunnel doctor --output table: all %s, and the formulas", unit.Count(len(r.Checks), "checks")))
	b := &strings.Builder{}
	for _, lines := range [][]string{head, r.describeProblems(summaryLines-len(head)-len(tail), colour), tail} {
		for _, line := range lines {
			fmt.Fprintln(b, line)
		}
	}
	return writeReport(w, b)
}

// describeProblems describes what is not fine, worst first, in at most so many lines. The
// last one names what has no room.
func (r Report) describeProblems(room int, colour func(State, string) string) (out []string) {
	var problems []Check
	for _, state := range []State{Bad, Doubt} {
		for _, c := range r.Checks {
			if c.State == state {
				problems = append(problems, c)
			}
		}
	}
	for i, c := range problems {
		lines := []string{colour(c.State, fmt.Sprintf("%-5s", c.State)) + "  " + cut(c.Name+": "+c.Found, summaryWidth-7)}
		if c.Remedy != "" {
			for n, line := range text.Wrap(c.Remedy, summaryWidth-9) {
				lines = append(lines, "       "+map[bool]string{true: "> ", false: "  "}[n == 0]+line)
			}
		}
		reserved := 1 // for the names of the others
		if i == len(problems)-1 {
			reserved = 0
		}
		if len(out)+len(lines)+reserved > room {
			return append(out, cutLine("and "+namesOf(problems[i:])))
		}
		out = append(out, lines...)
	}
	return out
}

func namesOf(checks []Check) string {
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

func cutLine(s string) string { return cut(s, summaryWidth) }

// cut returns the begin of a text that is longer than so many columns.
func cut(s string, columns int) string {
	if runes := []rune(s); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return s
}
