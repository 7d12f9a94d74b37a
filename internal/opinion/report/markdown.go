package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
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
	m.writeLine("### %s %s: %s", verdictSign(r.Judgement.Verdict), escapeMarkdown(r.Name()), word)
	m.writeLine("")
	m.writeLine("%s", escapeMarkdown(r.Sentence()))
	if reasons := listReasons(r); len(reasons) > 0 {
		m.writeLine("")
		for _, s := range reasons {
			m.writeLine("- %s", escapeMarkdown(s))
		}
	}
	m.writeObjectives(r.Objectives)
	m.writeFailures(r.Judgement.Failures)
	m.writeSpreads("Pods", spreadRows(r.Startup))
	for _, l := range r.Declared {
		m.writeSpreads("Lifecycle "+escapeMarkdown(l.Name), spreadRows(l.Spreads))
	}
	m.writeComponents(usageRows(r))
	m.writeClients(clientsByName(r, markdownClients))
	var facts []string
	for _, f := range listFacts(r) {
		facts = append(facts, strings.ToLower(f.Name)+" "+escapeMarkdown(f.Text))
	}
	m.writeLine("")
	m.writeLine("<sub>%s · seed %d · trust: %s</sub>", strings.Join(facts, " · "), r.Manifest.Seed, r.TrustInShort())
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

func (m *markdown) writeLine(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// beginTable begins a table; a column whose name ends in a colon is one of numbers.
func (m *markdown) beginTable(columns ...string) {
	rule := make([]string, len(columns))
	for i, c := range columns {
		name, numbers := strings.CutSuffix(c, ":")
		columns[i], rule[i] = name, "---"
		if numbers {
			rule[i] = "---:"
		}
	}
	m.writeLine("")
	m.writeLine("| %s |", strings.Join(columns, " | "))
	m.writeLine("|%s|", strings.Join(rule, "|"))
}

func (m *markdown) writeRow(cells ...string) {
	for i := range cells {
		cells[i] = escapeMarkdown(cells[i])
	}
	m.writeLine("| %s |", strings.Join(cells, " | "))
}

// writeFold puts what do writes behind a line that opens it.
func (m *markdown) writeFold(title string, do func()) {
	m.writeLine("")
	m.writeLine("<details><summary>%s</summary>", title)
	do()
	m.writeLine("")
	m.writeLine("</details>")
}

// writeFailures tells how calls of the load failed.
func (m *markdown) writeFailures(all []slo.Failure) {
	if len(all) == 0 {
		return
	}
	m.beginTable("Failed calls", "Step", "Answer", "For good:", "Sent again:")
	for _, f := range all {
		m.writeRow(f.Verb+" "+f.Target(), f.Step, f.Answer(), fmt.Sprint(f.Count), fmt.Sprint(f.Retried))
	}
}

func (m *markdown) writeObjectives(all []content.Objective) {
	if len(all) == 0 {
		return
	}
	seen, passed := 0, 0
	for ; seen < len(all) && passed < markdownPassed; seen++ {
		if all[seen].Verdict == slo.Pass {
			passed++
		}
	}
	m.writeObjectiveTable(all[:seen])
	if rest := all[seen:]; len(rest) > 0 {
		m.writeFold(unit.Count(len(rest), "more objectives")+", all met", func() { m.writeObjectiveTable(rest) })
	}
}

func (m *markdown) writeObjectiveTable(all []content.Objective) {
	m.beginTable("", "objective", "value:", "bound:", "% of limit:", "samples:")
	for _, o := range all {
		name := o.Title()
		if o.Verdict != slo.Pass && len(o.Warnings) > 0 {
			name += ": " + strings.Join(o.Warnings, "; ")
		}
		m.writeRow(string(o.Verdict), name, o.ValueText(), o.BoundText(), o.UsedText(), unit.Number(float64(o.Samples)))
	}
}

func (m *markdown) writeSpreads(name string, rows []spreadRow) {
	if len(rows) == 0 {
		return
	}
	m.writeFold(name, func() {
		m.beginTable("", "group", "number:", "p50:", "p90:", "p99:", "max:")
		for _, r := range rows {
			group := r.Group
			if of := r.censoredText(); of != "" {
				group += ": " + of
			}
			m.writeRow(r.Phase, group, r.N.Text, r.P50.Text, r.P90.Text, r.P99.Text, r.Max.Text)
		}
	})
}

func (m *markdown) writeComponents(rows []usageRow) {
	if len(rows) == 0 {
		return
	}
	m.writeFold("Components", func() {
		m.beginTable("", "CPU:", "per pod:", "peak:", "memory:")
		for _, r := range rows {
			m.writeRow(r.Name, r.Seconds.Text, r.PerPod.Text, r.Peak.Text, r.Memory.Text)
		}
	})
}

// escapeMarkdown takes from a text what Markdown and HTML would take for their own.
func escapeMarkdown(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`").Replace(text.Clean(s))
}
