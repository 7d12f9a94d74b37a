package publish

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// writeReport writes the page of a bundle: its level first, and what follows from the runs.
func writeReport(r *Results, x *Index) string {
	b := &strings.Builder{}
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("# %s: %s result\n", text.Escape(r.Scenario), r.Level)
	line("%s\n", text.Escape(LevelSentence(r)))
	line("## Claims\n")
	if len(r.Claims) == 0 {
		line("The author claims nothing.\n")
	}
	for _, c := range r.Claims {
		line("- **%s**: %s", text.Escape(c.State), text.Escape(c.Sentence()))
	}
	line("\n## Run rules\n")
	var rows [][]string
	for _, rule := range r.Checked {
		rows = append(rows, []string{met(rule.Met), rule.Says, rule.Why})
	}
	text.Table{Head: []string{"", "rule", "why"}, Rows: rows, Left: 3}.Markdown(b)
	line("\n## Runs\n")
	rows = nil
	for _, run := range r.Runs {
		rows = append(rows, []string{run.Name, run.Side, run.Started.UTC().Format("2006-01-02 15:04:05"), fmt.Sprint(run.Seed), string(run.Verdict), unit.Seconds(run.Seconds), percent(run.Others), run.EndedEarly})
	}
	text.Table{Head: []string{"run", "side", "started (UTC)", "seed", "verdict", "length", "other processes", "ended early"}, Rows: rows, Left: 3}.Markdown(b)
	for _, l := range r.LeftOut {
		line("\nLeft out: %s: %s.", text.Escape(l.Name), text.Escape(l.Why))
	}
	if len(r.Missing) > 0 {
		line("\nMentioned and not there: %s.", text.Escape(strings.Join(r.Missing, ", ")))
	}
	r.writeConditions(b)
	line("\nMade by windtunnel %s. Check this page: `windtunnel verify FILE --signer KEY`.", text.Escape(x.MadeBy))
	return b.String()
}

// writeConditions writes settings, machines, and what was taken out.
func (r *Results) writeConditions(b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	line("\n## Settings that are not the default\n")
	var rows [][]string
	for _, s := range r.Settings {
		rows = append(rows, []string{s.Name, s.Value, s.Default})
	}
	if len(rows) == 0 {
		line("None.")
	} else {
		text.Table{Head: []string{"setting", "value", "default"}, Rows: rows, Left: 3}.Markdown(b)
	}
	line("\n## Machine\n")
	for _, m := range r.Machines {
		line("- %s, %s, %s memory, %s, kernel %s, cgroup %s", unit.Count(m.Cores, "cores"), text.Escape(m.CPU), unit.Bytes(m.MemoryBytes).Human(), text.Escape(m.Arch), text.Escape(m.Kernel), text.Escape(m.Cgroup))
	}
	line("- real: %s", text.Escape(listOr(r.Real)))
	line("- simulated: %s", text.Escape(listOr(r.Modeled)))
	if len(r.Executables) > 0 {
		line("\n## Executables\n")
		rows = nil
		for _, e := range r.Executables {
			rows = append(rows, []string{e.Name, fmt.Sprintf("%.12s", e.SHA256), cmp.Or(e.Components, "none: "+cmp.Or(e.Why, "missing"))})
		}
		text.Table{Head: []string{"executable", "SHA-256", "components"}, Rows: rows, Left: 3}.Markdown(b)
	}
	line("\n## Taken out before publication\n")
	totals := map[string]int{}
	for _, x := range r.Removed {
		totals[x.Class] += x.Times
	}
	if len(totals) == 0 {
		line("Nothing.")
	}
	for _, class := range []string{"address", "given", "host", "path", "secret", "user"} {
		if n := totals[class]; n > 0 {
			line("- %s: %s", class, unit.Count(n, "times"))
		}
	}
}

// LevelSentence says which level a result has and why it has no higher one.
func LevelSentence(r *Results) string {
	var unmet []string
	for _, rule := range r.Checked {
		if !rule.Met {
			unmet = append(unmet, rule.Name+" ("+rule.Why+")")
		}
	}
	if len(unmet) == 0 {
		return fmt.Sprintf("Level: %s. All run rules of version %d are met.", r.Level, r.Rules)
	}
	return fmt.Sprintf("Level: %s. Run rules of version %d that are not met: %s.", r.Level, r.Rules, strings.Join(unmet, "; "))
}

// Level says which level a bundle that holds has: that of its results, or reproduced.
func (v *Verification) Level() string {
	if len(v.Reproduced) > 0 {
		return fmt.Sprintf("Level: %s by %s. All run rules of version %d are met.", LevelReproduced, strings.Join(v.Reproduced, ", "), v.Results.Rules)
	}
	return LevelSentence(v.Results)
}

// Sentence says what a claim says and what was measured.
func (c *ClaimResult) Sentence() string {
	value := func(v float64) string {
		if c.Of == changeOf {
			return compare.FormatChange(1 + v)
		}
		return unit.Text(v, c.Unit)
	}
	s := fmt.Sprintf("%s (%s", c.Says, c.Measure)
	if c.Of != "" {
		s += " of " + c.Of
	}
	if c.Min != nil {
		s += ", at least " + value(*c.Min)
	}
	if c.Max != nil {
		s += ", at most " + value(*c.Max)
	}
	s += "): "
	if c.Value != nil {
		s += fmt.Sprintf("measured %s in %s", value(*c.Value), unit.Count(c.Runs, "runs"))
	} else {
		s += "not measured"
	}
	if c.Interval != nil {
		s += fmt.Sprintf(", %s to %s with a confidence of %s %%", value(c.Interval[0]), value(c.Interval[1]), unit.Number(100*c.Confidence))
	}
	if c.Why != "" {
		s += "; " + c.Why
	}
	return s
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

func percent(v *float64) string {
	if v == nil {
		return "not measured"
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

func listOr(s []string) string {
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, ", ")
}
