package history

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// describeChange says a change in words.
func (m Measure) describeChange(c Change) string {
	text := fmt.Sprintf("%s changed from %s to %s", m.Title, unit.Text(c.Before, m.Unit), unit.Text(c.After, m.Unit))
	if c.Share != nil {
		side := "worse"
		if *c.Share < 0 {
			side = "better"
		}
		text += fmt.Sprintf(" (%s %s)", unit.Text(math.Abs(*c.Share), "ratio"), side)
	}
	text += " with " + c.Run
	var with []string
	for _, v := range c.Versions {
		with = append(with, fmt.Sprintf("%s %s in place of %s", v[0], orNone(v[2]), orNone(v[1])))
	}
	if len(with) > 0 {
		text += ": " + strings.Join(with, ", ")
	}
	return text
}

// Text is a change's sentence, with whether it was accepted or is only suspected.
func (c Change) Text() string {
	switch {
	case c.Acceptance != nil:
		return c.Sentence + c.Acceptance.note()
	case c.Accepted:
		return c.Sentence + Acceptance{}.note()
	case c.Suspected:
		return c.Sentence + " (suspected)"
	}
	return c.Sentence
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Conclusion says in one sentence what came out of it.
func (r *Report) Conclusion() string {
	changed := 0
	for _, m := range r.Measures {
		if len(m.Changes) > 0 {
			changed++
		}
	}
	if g := r.Gate; g != nil {
		bound := unit.Text(g.FailAbove, "ratio")
		switch g.Verdict {
		case slo.Fail:
			return fmt.Sprintf("FAIL: %d of %d measures have become worse by more than %s, and nobody has accepted it.", len(g.Failed), len(r.Measures), bound)
		case slo.Unknown:
			if g.Neutral() {
				return fmt.Sprintf("NEUTRAL: %s, too few to see a change; %s %s needed, and none fails before that.",
					unit.Count(len(r.Runs), "runs"), unit.Count(g.Needed, "more builds"), unit.Verb(g.Needed, "is", "are"))
			}
			return "UNKNOWN: " + r.whyUnknown()
		}
		text := fmt.Sprintf("PASS: no measure is known to have become worse by more than %s.", bound)
		if n := len(g.Suspected); n > 0 {
			return fmt.Sprintf("%s %d of %d are suspected: %s more will tell.", text, n, len(r.Measures), unit.Count(confirmRuns, "runs"))
		}
		return fmt.Sprintf("%s %s It fails a build %s later, if it is still there.", text, r.describeSensitivity(), unit.Count(confirmRuns, "runs"))
	}
	return fmt.Sprintf("%d of %d measures changed in %s. %s", changed, len(r.Measures), unit.Count(len(r.Runs), "runs"), r.describeSensitivity())
}

// whyUnknown says why a gate cannot tell.
func (r *Report) whyUnknown() string {
	switch n := len(r.Measures); {
	case n == 0:
		return "there is no measure to look at."
	case level/float64(n) < stats.MinLevel:
		return fmt.Sprintf("%s are too many to see a change in any; look at fewer (--measure).", unit.Count(n, "measures"))
	}
	return fmt.Sprintf("%s %s too few to see a change.", unit.Count(len(r.Runs), "runs"), unit.Verb(len(r.Runs), "is", "are"))
}

// describeSensitivity says how soon a change is seen.
func (r *Report) describeSensitivity() string {
	if r.Needed == 0 && level/float64(max(1, len(r.Measures))) < stats.MinLevel {
		return "So many measures cannot show any change."
	}
	if r.Needed == 0 {
		return "So few runs cannot show any change yet."
	}
	return fmt.Sprintf("A change is seen %s after it at the earliest.", unit.Count(r.Needed, "runs"))
}

// JSON writes the report with everything that is known.
func (r *Report) JSON(w io.Writer) error {
	if err := text.JSON(w, r); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Write writes the report for a terminal, or for a comment where markdown is set:
// the measures that changed, or where all is set every one.
func (r *Report) Write(w io.Writer, markdown, all bool) error {
	b := &strings.Builder{}
	clean, warning := text.Clean, "! "
	if markdown {
		clean, warning = text.Escape, "- :warning: "
		fmt.Fprintf(b, "### windtunnel history: %s\n\n**%s**\n\n", clean(r.Scenario), clean(r.Conclusion()))
	} else {
		fmt.Fprintf(b, "windtunnel history  %s\n\n%s\n\n", clean(r.Scenario), clean(r.Conclusion()))
	}
	for _, s := range r.Warnings {
		fmt.Fprintf(b, "%s%s\n", warning, clean(s))
	}
	for _, m := range r.Measures {
		for _, c := range m.Changes {
			fmt.Fprintf(b, "- %s\n", clean(c.Text()))
		}
	}
	b.WriteString("\n")
	t := text.Table{Head: []string{"measure", "first", "now", "changes", "runs, oldest first"}, Left: 1}
	quiet := 0
	for _, m := range r.Measures {
		if !all && len(m.Changes) == 0 {
			quiet++
			continue
		}
		t.Rows = append(t.Rows, []string{m.Title, unit.Text(m.firstLevel(), m.Unit), unit.Text(m.Now, m.Unit), fmt.Sprint(len(m.Changes)), m.drawSpark()})
	}
	switch {
	case len(t.Rows) == 0:
	case markdown:
		t.Markdown(b)
		b.WriteString("\n")
	default:
		t.Text(b)
	}
	if quiet > 0 {
		fmt.Fprintf(b, "%d of %d measures did not change; --all lists them.\n", quiet, len(r.Measures))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// firstLevel is the level at the begin.
func (m Measure) firstLevel() float64 {
	if len(m.Changes) > 0 {
		return m.Changes[0].Before
	}
	return m.Now
}

// sparkLast is how many runs a spark line shows.
const sparkLast = 40

// drawSpark draws the newest values in eight heights, and a bar before each change.
func (m Measure) drawSpark() string {
	from := max(0, len(m.Values)-sparkLast)
	shown := m.Values[from:]
	least, most := slices.Min(shown), slices.Max(shown)
	heights := []rune("▁▂▃▄▅▆▇█")
	var out []rune
	for i, v := range shown {
		if slices.ContainsFunc(m.Changes, func(c Change) bool { return c.At == from+i }) {
			out = append(out, '|')
		}
		h := 0
		if most > least {
			h = int((v - least) / (most - least) * float64(len(heights)-1))
		}
		out = append(out, heights[h])
	}
	return string(out)
}
