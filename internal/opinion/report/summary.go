package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The summary's widths. A terminal of 80 columns holds it.
const (
	minWidth      = 60
	summaryPassed = 4 // passed objectives that are listed; the rest is counted
)

// WriteSummary writes the run in plain text of at most width columns, for
// summary.txt and the terminal. It has no colours: whoever has a terminal may
// add them to the verdict's word, which says the same without.
func WriteSummary(w io.Writer, r *content.Report, width int) error {
	t := &summaryText{width: max(width, minWidth)}
	t.writeHead(r)
	t.writeObjectives(r)
	t.writeFailures(r)
	t.writeCauses(r)
	t.writeUpgrade(r)
	t.writeWrites(r)
	t.writeSpreads(r)
	t.writeMembers(r)
	t.writeComponents(r)
	t.writeClients(r)
	t.writeWorkers(r)
	t.writePublished(r)
	t.writeTrust(r)
	if _, err := io.WriteString(w, t.b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// summaryText is a summary that is being written.
type summaryText struct {
	b     strings.Builder
	width int
}

func (t *summaryText) writeLine(s string) { t.b.WriteString(strings.TrimRight(s, " ") + "\n") }

// writeWrapped writes words behind a lead; further lines are indented as far.
func (t *summaryText) writeWrapped(lead, s string) {
	indent := strings.Repeat(" ", displayWidth(lead))
	for _, l := range wrapWords(text.Clean(s), t.width-displayWidth(lead)) {
		t.writeLine(lead + l)
		lead = indent
	}
}

func (t *summaryText) writeHeading(s string) { t.writeLine(""); t.writeLine(s) }

func (t *summaryText) writeHead(r *content.Report) {
	m := r.Manifest
	word := strings.ToUpper(verdictWord(r.Judgement.Verdict))
	left := cutToWidth("windtunnel  "+text.Clean(r.Name()), t.width-len(word)-2)
	t.writeLine(left + strings.Repeat(" ", t.width-displayWidth(left)-len(word)) + word)
	var facts []string
	for _, f := range listFacts(r) {
		facts = append(facts, strings.ToLower(f.Name)+" "+f.Text)
	}
	t.writeWrapped("", strings.Join(append(facts, fmt.Sprintf("seed %d", m.Seed)), " · "))
	t.writeLine("")
	t.writeWrapped("", r.Sentence())
	for _, s := range listReasons(r) {
		t.writeWrapped("- ", s)
	}
}

// The columns of objectives: sign, name, value, bound, share of the bound that is used, samples.
func (t *summaryText) writeObjectives(r *content.Report) {
	if len(r.Objectives) == 0 {
		return
	}
	const figures = 13 + 10 + 11 + 9
	name := t.width - figures - 8
	t.writeHeading(padRight("", 8) + padRight("OBJECTIVE", name) + padLeft("VALUE", 13) + padLeft("BOUND", 10) + padLeft("% OF LIMIT", 11) + padLeft("SAMPLES", 9))
	passed := 0
	for i, o := range r.Objectives {
		if o.Verdict == slo.Pass {
			passed++
		}
		if passed > summaryPassed && len(r.Objectives)-i > 1 {
			t.writeLine(padRight("pass", 8) + fmt.Sprintf("%d more", len(r.Objectives)-i))
			break
		}
		t.writeObjective(o, name)
	}
}

func (t *summaryText) writeObjective(o content.Objective, name int) {
	word := map[slo.Verdict]string{slo.Pass: "pass", slo.Fail: "FAIL", slo.Unknown: "UNKNOWN"}[o.Verdict]
	figures := padLeft(o.ValueText(), 13) + padLeft(o.BoundText(), 10) + padLeft(o.UsedText(), 11) + padLeft(unit.Number(float64(o.Samples)), 9)
	lines := wrapWords(text.Clean(strings.TrimSpace(o.Head()+" "+o.About())), name-1)
	for i, l := range lines {
		switch i {
		case 0:
			t.writeLine(padRight(word, 8) + padRight(l, name) + figures)
		default:
			t.writeLine(padRight("", 8) + l)
		}
	}
	if o.Failed > 0 && o.SLI != slo.FailedCalls {
		t.writeWrapped(padRight("", 10), fmt.Sprintf("%d of these calls failed.", o.Failed))
	}
	if o.Verdict == slo.Pass {
		return
	}
	if o.SLI == slo.FailedCalls {
		return // they have a part of their own
	}
	for _, w := range o.Warnings {
		t.writeWrapped(padRight("", 10), text.Sentence(w))
	}
}

// summaryFailures is how many ways in which calls failed are spelt out.
const summaryFailures = 5

// writeFailures tells how calls of the load failed, what was not expected first.
func (t *summaryText) writeFailures(r *content.Report) {
	all := r.Judgement.Failures
	if len(all) == 0 {
		return
	}
	t.writeHeading("CALLS THAT FAILED")
	for i, f := range all {
		if i == summaryFailures && len(all) > i+1 {
			t.writeLine(padRight("", 8) + fmt.Sprintf("and in %s: report.html and verdict.json have them", unit.Count(len(all)-i, "more ways")))
			return
		}
		t.writeWrapped(padLeft(unit.Number(float64(f.Count)), 6)+"  ", failureText(f))
	}
}

// failureText is one way in which calls failed, in a sentence.
func failureText(f slo.Failure) string {
	out := fmt.Sprintf("%s %s in step %s: %s", f.Verb, f.Target(), f.Step, f.Answer())
	if f.Retried > 0 {
		out += fmt.Sprintf("; sent again %s", unit.Count(f.Retried, "times"))
	}
	if f.Expected {
		out += "; expected"
	}
	return out
}

// summaryCause is the least score of a cause that the summary names: what explains
// less of the load's window is left to the report. Diagnoses of before had such.
const summaryCause = 0.05

// writeCauses names what limited the plane, the first cause first, or says that nothing
// did.
func (t *summaryText) writeCauses(r *content.Report) {
	shown := foldCauses(r.Causes).Shown
	for i, c := range shown {
		if c.Nothing() {
			t.writeHeading("BOTTLENECKS")
			t.writeWrapped("", c.Sentence)
			return
		}
		if c.Score < summaryCause {
			return
		}
		if i == 0 {
			t.writeHeading("BOTTLENECKS (SHARE OF LOAD TIME)")
		}
		t.writeWrapped(padLeft(fmt.Sprintf("%.0f %%", 100*c.Score), 6)+"  ", c.Title()+": "+c.Sentence)
		if c.Try != "" {
			t.writeWrapped(padRight("", 8)+"-> ", c.Try)
		}
	}
}

// writeSpreads shows how long each transition of lifecycles took, group by group.
func (t *summaryText) writeSpreads(r *content.Report) {
	t.writeTransitions("PODS", r.Startup)
	for _, l := range r.Declared {
		t.writeTransitions(strings.ToUpper(text.Clean(l.Name)), l.Spreads)
	}
}

func (t *summaryText) writeTransitions(title string, all []content.Spread) {
	if len(all) == 0 {
		return
	}
	name := t.width - 8 - 4*10
	t.writeHeading(padRight(cutToWidth(title, name-1), name) + padLeft("NUMBER", 8) + padLeft("P50", 10) + padLeft("P90", 10) + padLeft("P99", 10) + padLeft("MAX", 10))
	for _, row := range spreadRows(all) {
		t.writeLine(padRight(cutToWidth(text.Clean(row.Phase+"  "+row.Group), name-1), name) + padLeft(row.N.Text, 8) +
			padLeft(row.P50.Text, 10) + padLeft(row.P90.Text, 10) + padLeft(row.P99.Text, 10) + padLeft(row.Max.Text, 10))
		if censored := row.censoredText(); censored != "" {
			t.writeWrapped(padRight("", 4), censored)
		}
	}
}

func (t *summaryText) writeComponents(r *content.Report) {
	if len(r.Components) == 0 {
		return
	}
	name := t.width - 10 - 12 - 13 - 14
	t.writeHeading(padRight("COMPONENT", name) + padLeft("CPU", 10) + padLeft("PER POD", 12) + padLeft("PEAK", 13) + padLeft("MEMORY", 14))
	for _, row := range usageRows(r) {
		t.writeLine(padRight(cutToWidth(text.Clean(row.Name), name-1), name) + padLeft(row.Seconds.Text, 10) + padLeft(row.PerPod.Text, 12) +
			padLeft(row.Peak.Text, 13) + padLeft(row.Memory.Text, 14))
	}
}

func (t *summaryText) writePublished(r *content.Report) {
	rows := figureRows(r)
	if len(rows) == 0 {
		return
	}
	t.writeHeading("PUBLISHED FIGURES")
	for _, f := range rows {
		t.writeWrapped("  ", fmt.Sprintf("%s: here %s, published %s (%s)", f.Measure, f.Measured, f.Published, f.Source))
		if f.Differences != "" {
			t.writeWrapped("    ", text.Sentence(f.Differences))
		}
	}
}

// writeTrust names what is not as it should be; on a clean run it is one line.
func (t *summaryText) writeTrust(r *content.Report) {
	t.writeHeading("TRUST")
	var fine []string
	for _, f := range r.Trust {
		if f.Level == content.Fine {
			fine = append(fine, strings.ToLower(f.Name))
			continue
		}
		t.writeWrapped("  "+padRight(map[content.Level]string{content.Note: "note", content.Bad: "WARNING"}[f.Level], 9), f.Name+": "+f.Text)
	}
	if len(fine) > 0 {
		t.writeWrapped("  "+padRight("fine", 9), strings.Join(fine, ", "))
	}
	for _, s := range r.Warnings {
		t.writeWrapped("  "+padRight("warning", 9), s)
	}
}

// displayWidth is how many columns of a terminal a text takes. Wide scripts take
// two for each character; what is in tables is mostly ASCII, so that a range
// is near enough.
func displayWidth(s string) int {
	n := 0
	for _, c := range s {
		if unicode.Is(unicode.Mn, c) {
			continue
		}
		n++
		if c >= 0x1100 && (c <= 0x115f || c >= 0x2e80 && c <= 0xd7a3 || c >= 0xf900 && c <= 0xfaff || c >= 0xfe30 && c <= 0xff60 || c >= 0x1f300) {
			n++
		}
	}
	return n
}

func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(width-displayWidth(s), 0))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(width-displayWidth(s), 1)) + s
}

// cutToWidth shortens a text to width columns.
func cutToWidth(s string, width int) string {
	if displayWidth(s) <= width {
		return s
	}
	out := []rune(s)
	for len(out) > 0 && displayWidth(string(out)) > width-1 {
		out = out[:len(out)-1]
	}
	return string(out) + "…"
}

// wrapWords breaks a text into lines of at most width columns, at spaces where there
// are some.
func wrapWords(s string, width int) []string {
	var out []string
	current := ""
	for word := range strings.FieldsSeq(s) {
		for displayWidth(word) > width { // a word that no line can hold
			head := strings.TrimSuffix(cutToWidth(word, width+1), "…")
			if current != "" {
				out, current = append(out, current), ""
			}
			out, word = append(out, head), word[len(head):]
		}
		switch {
		case current == "":
			current = word
		case displayWidth(current)+1+displayWidth(word) <= width:
			current += " " + word
		default:
			out, current = append(out, current), word
		}
	}
	return append(out, current)
}
