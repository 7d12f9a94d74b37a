package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// JSON writes the whole report, facts included.
func (r Report) JSON(w io.Writer) error {
	if err := text.JSON(w, r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Table writes the report for a terminal. Colour, where it is wanted, is added
// to words that say the same without it.
func (r Report) Table(w io.Writer, colour func(State, string) string) error {
	b := &strings.Builder{}
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range r.Checks {
		fmt.Fprintf(b, "%s  %-*s  %s\n", colour(c.State, fmt.Sprintf("%-5s", c.State)), width, c.Name, c.Found)
		for _, more := range []string{c.Means, remedyLine(c.Remedy)} {
			if more != "" {
				fmt.Fprintf(b, "%*s  %s\n", 7+width, "", more)
			}
		}
	}
	b.WriteString("\nEstimated capacity of this machine, for each kind alone:\n")
	for _, h := range r.Holds {
		fmt.Fprintf(b, "%9s  %s\n%9s  limited by %s: %s\n", unit.Number(h.Count), h.What, "", h.Bound, h.Formula)
	}
	fmt.Fprintf(b, "\n%s\n", colour(r.State, r.Sentence()))
	return writeReport(w, b)
}

func remedyLine(remedy string) string {
	if remedy == "" {
		return ""
	}
	return "> " + remedy
}

// Markdown writes the report as tables, for an issue or a summary of CI.
func (r Report) Markdown(w io.Writer) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n\n| | check | found | what follows | remedy |\n|---|---|---|---|---|\n", r.Sentence())
	for _, c := range r.Checks {
		remedy := ""
		if c.Remedy != "" {
			remedy = "`" + c.Remedy + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", c.State, c.Name, escapeCell(c.Found), escapeCell(c.Means), escapeCell(remedy))
	}
	b.WriteString("\n| this machine holds | of | limited by | formula |\n|---:|---|---|---|\n")
	for _, h := range r.Holds {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", unit.Number(h.Count), h.What, h.Bound, escapeCell(h.Formula))
	}
	return writeReport(w, b)
}

// escapeCell takes away what would end a cell.
func escapeCell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

// Sentence says what the machine is good for.
func (r Report) Sentence() string {
	n := 0
	for _, c := range r.Checks {
		if c.State == r.State {
			n++
		}
	}
	switch r.State {
	case Fine:
		return "Runs work on this machine; no check raised a doubt."
	case Doubt:
		return fmt.Sprintf("Runs work on this machine; %s in doubt.", countThings(n))
	}
	return fmt.Sprintf("Runs do not work on this machine: %s bad.", countThings(n))
}

func countThings(n int) string {
	if n == 1 {
		return "one thing is"
	}
	return unit.Count(n, "things") + " are"
}

func writeReport(w io.Writer, b *strings.Builder) error {
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
