package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// markdownPassed is how many met objectives are in sight; the others fold away.
const markdownPassed = 5

// WriteMarkdown writes the run for where GitHub's flavour of it is shown: the summary
// of a CI step, an issue, a comment. The worst comes first, and what is long
// folds away.
func WriteMarkdown(w io.Writer, r *content.Report) error {
	m := &markdown{}
	word := verdictWord(r.Judgement.Verdict)
	m.line("### %s %s: %s", verdictSign(r.Judgement.Verdict), escapeMarkdown(r.Name()), word)
	m.line("")
	m.line("%s", escapeMarkdown(r.Sentence()))
	if reasons := listReasons(r); len(reasons) > 0 {
		m.line("")
		for _, s := range reasons {
			m.line("- %s", escapeMarkdown(s))
		}
	}
	m.objectives(r.Objectives)
	m.failures(r.Judgement.Failures)
	m.spreads("Pods", spreadRows(r.Startup))
	for _, l := range r.Declared {
		m.spreads("Lifecycle "+escapeMarkdown(l.Name), spreadRows(l.Spreads))
	}
	m.components(usageRows(r))
	var facts []string
	for _, f := range listFacts(r) {
		facts = append(facts, strings.ToLower(f.Name)+" "+escapeMarkdown(f.Text))
	}
	m.line("")
	m.line("<sub>%s · seed %d · trust: %s</sub>", strings.Join(facts, " · "), r.Manifest.Seed, r.TrustInShort())
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("write Markdown: %w", err)
	}
	return nil
}

func verdictSign(v slo.Verdict) string {
	return map[slo.Verdict]string{slo.Pass: "✅", slo.Fail: "❌"}[v] + map[bool]string{true: "❔"}[v != slo.Pass && v != slo.Fail]
}

// markdown is a text that is being written.
type markdown struct{ strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// table begins a table; a column whose name ends in a colon is one of numbers.
func (m *markdown) table(columns ...string) {
	rule := make([]string, len(columns))
	for i, c := range columns {
		name, numbers := strings.CutSuffix(c, ":")
		columns[i], rule[i] = name, "---"
		if numbers {
			rule[i] = "---:"
		}
	}
	m.line("")
	m.line("| %s |", strings.Join(columns, " | "))
	m.line("|%s|", strings.Join(rule, "|"))
}

func (m *markdown) row(cells ...string) {
	for i := range cells {
		cells[i] = escapeMarkdown(cells[i])
	}
	m.line("| %s |", strings.Join(cells, " | "))
}

// fold puts what do writes behind a line that opens it.
func (m *markdown) fold(title string, do func()) {
	m.line("")
	m.line("<details><summary>%s</summary>", title)
	do()
	m.line("")
	m.line("</details>")
}

// failures tells how calls of the load failed.
func (m *markdown) failures(all []slo.Failure) {
	if len(all) == 0 {
		return
	}
	m.table("Failed calls", "Step", "Answer", "For good:", "Sent again:")
	for _, f := range all {
		m.row(f.Verb+" "+f.Target(), f.Step, f.Answer(), fmt.Sprint(f.Count), fmt.Sprint(f.Retried))
	}
}

func (m *markdown) objectives(all []content.Objective) {
	if len(all) == 0 {
		return
	}
	seen, passed := 0, 0
	for ; seen < len(all) && passed < markdownPassed; seen++ {
		if all[seen].Verdict == slo.Pass {
			passed++
		}
	}
	m.objectiveTable(all[:seen])
	if rest := all[seen:]; len(rest) > 0 {
		m.fold(unit.Count(len(rest), "more objectives")+", all met", func() { m.objectiveTable(rest) })
	}
}

func (m *markdown) objectiveTable(all []content.Objective) {
	m.table("", "objective", "value:", "bound:", "% of limit:", "samples:")
	for _, o := range all {
		name := o.Title()
		if o.Verdict != slo.Pass && len(o.Warnings) > 0 {
			name += ": " + strings.Join(o.Warnings, "; ")
		}
		m.row(string(o.Verdict), name, o.ValueText(), o.BoundText(), o.UsedText(), unit.Number(float64(o.Samples)))
	}
}

func (m *markdown) spreads(name string, rows []spreadRow) {
	if len(rows) == 0 {
		return
	}
	m.fold(name, func() {
		m.table("", "group", "number:", "p50:", "p90:", "p99:", "max:")
		for _, r := range rows {
			group := r.Group
			if of := r.censored(); of != "" {
				group += ": " + of
			}
			m.row(r.Phase, group, r.N.Text, r.P50.Text, r.P90.Text, r.P99.Text, r.Max.Text)
		}
	})
}

func (m *markdown) components(rows []usageRow) {
	if len(rows) == 0 {
		return
	}
	m.fold("Components", func() {
		m.table("", "CPU:", "per pod:", "peak:", "memory:")
		for _, r := range rows {
			m.row(r.Name, r.Seconds.Text, r.PerPod.Text, r.Peak.Text, r.Memory.Text)
		}
	})
}

// escapeMarkdown takes from a text what Markdown and HTML would take for their own.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "\n", " ", "\r", " ").Replace(s)
}
