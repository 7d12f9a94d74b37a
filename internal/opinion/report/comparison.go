package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrNoArms says that there is nothing to lay over each other.
var ErrNoArms = errors.New("a comparison needs two arms with a run each")

// shownFindings is how many differences are told on the first screen.
const shownFindings = 5

// Compare renders a comparison: pairs[i] is what package compare made of the
// first arm and of arm i+1. It judges nothing itself.
func Compare(arms []content.Arm, pairs []*compare.Comparison) (Page, error) {
	if len(arms) < 2 || len(pairs) != len(arms)-1 || slices.ContainsFunc(arms, func(a content.Arm) bool { return len(a.Runs) == 0 }) {
		return Page{}, ErrNoArms
	}
	v, err := newComparisonView(arms, pairs)
	if err != nil {
		return Page{}, fmt.Errorf("render comparison: %w", err)
	}
	main, err := renderTemplate("comparison", v)
	if err != nil {
		return Page{}, fmt.Errorf("render comparison: %w", err)
	}
	first := arms[0].Runs[0].Manifest
	names := make([]string, len(arms))
	for i, a := range arms {
		names[i] = a.Name
	}
	return Page{
		Kind: kindComparison, State: v.State, Title: strings.Join(names, " and ") + " – " + first.Scenario + " – windtunnel", Name: first.Scenario,
		When: strings.Join(names, " and ") + " compared", Main: main, Data: content.Overlay(arms), Made: first.Versions[run.Instrument],
	}, nil
}

// comparisonView is what the template of a comparison is filled from.
type comparisonView struct {
	State, Word, Glyph, Lead string
	Findings, Warnings       []string
	More                     int // findings that are in the table only
	Arms                     []armCard
	Differences              []compare.Difference
	Pairs                    []pairView
	HasStartup               bool
	Bands                    string // whose steps are drawn
}

type armCard struct {
	Name  string
	Class string // of its colour
	Runs  []armRun
	Whole string // manifest of its first run

	Limited string // what limited its runs, in how many; empty where none was diagnosed
}

type armRun struct{ Verdict, Glyph, Word, Started, Sentence string }

// pairView is one arm against the first.
type pairView struct {
	Title             string
	A, B              string
	Differing, Rest   []measureRow
	Inconclusive      []string
	RestText          string
	Counters          []counterRow
	CountersText      string
	CountersMore      []counterRow
	CountersMoreWords string
	Figures           []comparedFigure
}

// comparedFigure is a published figure of two sides.
type comparedFigure struct{ Title, Here, Published, Source, Differences string }

type measureRow struct {
	Outcome, Glyph, Class, Title string
	A, B, Change, Interval, P    string
	Forest                       forest
}

type counterRow struct{ State, Name, A, B, Change string }

func newComparisonView(arms []content.Arm, pairs []*compare.Comparison) (*comparisonView, error) {
	v := &comparisonView{State: StateCompared, Word: "Compared", Glyph: "=", Differences: []compare.Difference{}, Bands: arms[0].Name}
	if verdict, asked := gateOf(pairs); asked {
		v.State, v.Word, v.Glyph = string(verdict), verdictWord(verdict), verdictGlyph(verdict)
	}
	var leads []string
	for i, c := range pairs {
		leads = append(leads, pairConclusion(c))
		for _, w := range c.Warnings {
			if !slices.Contains(v.Warnings, w) {
				v.Warnings = append(v.Warnings, w)
			}
		}
		v.Differences = append(v.Differences, newDifferences(v.Differences, c.Differences)...)
		v.Findings = append(v.Findings, pairFindings(c)...)
		v.Pairs = append(v.Pairs, newPairView(arms[0].Name, arms[i+1].Name, c))
	}
	if len(pairs) > 1 {
		v.Warnings = append(v.Warnings, fmt.Sprintf("Each arm is compared with %s by itself: with %d of them a false alarm is about %d times as likely as with one.", arms[0].Name, len(pairs), len(pairs)))
	}
	v.Lead = strings.Join(leads, " ")
	if len(v.Findings) > shownFindings {
		v.More = len(v.Findings) - shownFindings
		v.Findings = v.Findings[:shownFindings]
	}
	for i, a := range arms {
		card, err := newArmCard(i, a)
		if err != nil {
			return nil, err
		}
		if side := sideOf(pairs, i); len(side.LimitedBy) > 0 {
			card.Limited = side.Limited()
		}
		v.Arms = append(v.Arms, card)
		v.HasStartup = v.HasStartup || slices.ContainsFunc(a.Runs, func(r *content.Report) bool { return len(r.Startup) > 0 })
	}
	return v, nil
}

// sideOf is an arm in the comparisons with the first.
func sideOf(pairs []*compare.Comparison, arm int) compare.Side {
	if arm == 0 {
		return pairs[0].A
	}
	return pairs[arm-1].B
}

// gateOf is the worst of the gates' verdicts, if any was asked for.
func gateOf(pairs []*compare.Comparison) (slo.Verdict, bool) {
	out, asked := slo.Pass, false
	for _, c := range pairs {
		if c.Gate != nil {
			asked = true
			if content.Badness(c.Gate.Verdict) > content.Badness(out) {
				out = c.Gate.Verdict
			}
		}
	}
	return out, asked
}

// pairConclusion is a pair's sentence without the verdict's word, which the page
// has above it.
func pairConclusion(c *compare.Comparison) string {
	s := c.Conclusion()
	if c.Gate == nil {
		return s
	}
	_, rest, ok := strings.Cut(s, ": ")
	if !ok {
		return s
	}
	return text.Capital(rest)
}

func newDifferences(known, all []compare.Difference) []compare.Difference {
	var out []compare.Difference
	for _, d := range all {
		if !slices.Contains(known, d) {
			out = append(out, d)
		}
	}
	return out
}

// pairFindings are the differences beyond chance, in sentences.
func pairFindings(c *compare.Comparison) []string {
	var out []string
	for _, m := range c.Measures {
		if m.Differs() {
			out = append(out, text.Sentence(m.Sentence))
		}
	}
	if out == nil { // so few runs show no difference, but what they measured is the answer
		for _, h := range c.Headlines() {
			out = append(out, text.Sentence(h))
		}
	}
	return out
}

func newArmCard(i int, a content.Arm) (armCard, error) {
	whole, err := json.MarshalIndent(a.Runs[0].Manifest, "", "  ")
	if err != nil {
		return armCard{}, fmt.Errorf("encode manifest: %w", err)
	}
	out := armCard{Name: a.Name, Class: fmt.Sprintf("a%d", i%6+1), Whole: string(whole)}
	for _, r := range a.Runs {
		j := r.Judgement
		run := armRun{string(j.Verdict), verdictGlyph(j.Verdict), verdictWord(j.Verdict), r.Manifest.Started.UTC().Format("2 January 2006, 15:04:05 UTC"), ""}
		if j.Verdict != slo.Pass {
			run.Sentence = r.Sentence()
		}
		out.Runs = append(out.Runs, run)
	}
	return out, nil
}

func newPairView(a, b string, c *compare.Comparison) pairView {
	v := pairView{Title: b + " against " + a, A: a, B: b}
	_, inconclusive := c.Findings()
	for _, s := range inconclusive {
		if s = text.Sentence(s); strings.HasPrefix(s, "of ") { // others begin with a measure's name
			s = text.Capital(s)
		}
		v.Inconclusive = append(v.Inconclusive, s)
	}
	scale := forestScale(c.Measures)
	count := map[compare.Outcome]int{}
	for _, m := range c.Measures {
		if m.Besides && m.Outcome == compare.Same {
			continue // of no interest to anybody, and there are dozens
		}
		row := newMeasureRow(m, scale)
		if count[m.Outcome]++; m.Differs() {
			v.Differing = append(v.Differing, row)
		} else {
			v.Rest = append(v.Rest, row)
		}
	}
	v.RestText = restOfMeasures(count)
	for _, k := range c.Counters {
		row := counterRow{State: k.Word(), Name: k.Name + " (" + k.Unit + ")", A: compare.FormatCounts(k.A), B: compare.FormatCounts(k.B), Change: typographicMinus(k.Change())}
		switch {
		case k.Own || k.Shown:
			v.Counters = append(v.Counters, row)
		case k.State != compare.Equal:
			v.CountersMore = append(v.CountersMore, row)
		}
	}
	equal, beyond := c.CounterTally()
	v.CountersText = fmt.Sprintf("%s of what was asked of the plane and what it did, which do not depend on how fast the machine is: %d equal in all runs, %d different beyond chance.",
		unit.Text(float64(len(c.Counters)), "counters"), equal, beyond)
	if c.Counters == nil {
		v.CountersText = "The counters are unknown: not every run has its records."
	}
	for _, f := range c.Published {
		v.Figures = append(v.Figures, comparedFigure{f.Title, typographicMinus(f.Here()), typographicMinus(f.Text()), f.Source, f.Differences})
	}
	v.CountersMoreWords = unit.Number(float64(len(v.CountersMore))) + " " + unit.Verb(len(v.CountersMore), "counter that varies", "counters that vary") + " within what chance gives"
	return v
}

// restOfMeasures says what is folded away.
func restOfMeasures(count map[compare.Outcome]int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		text string
	}{{count[compare.Inconclusive], "inconclusive"}, {count[compare.Equivalent], "equivalent"}, {count[compare.Same], "equal in all runs"}} {
		if p.n > 0 {
			parts = append(parts, unit.Number(float64(p.n))+" "+p.text)
		}
	}
	return "Other measures: " + strings.Join(parts, ", ")
}

// typographicMinus writes a change with the sign that typography has for it: "−4.3 %".
func typographicMinus(change string) string { return strings.ReplaceAll(change, "-", "−") }

func newMeasureRow(m compare.Measure, scale float64) measureRow {
	row := measureRow{
		Outcome: m.Word(), Title: m.Title,
		A: unit.Text(m.A.Median, m.Unit), B: unit.Text(m.B.Median, m.Unit), Change: "–", Interval: "–", P: "–",
		Glyph: map[compare.Outcome]string{compare.Worse: "✕", compare.Better: "✓", compare.Risen: "↑", compare.Fallen: "↓", compare.Inconclusive: "?", compare.Equivalent: "≈", compare.Same: "="}[m.Outcome],
		Class: map[compare.Outcome]string{compare.Worse: "fail", compare.Better: "pass", compare.Risen: "equivalent", compare.Fallen: "equivalent", compare.Inconclusive: "unknown", compare.Equivalent: "equivalent", compare.Same: "equivalent"}[m.Outcome],
	}
	if m.Ratio != nil && m.Outcome != compare.Same {
		row.Change = typographicMinus(compare.FormatChange(*m.Ratio))
		row.Forest = newForest(m, scale)
	}
	if m.Interval != nil && m.Outcome != compare.Same {
		row.Interval = typographicMinus(compare.FormatChange(m.Interval[0]) + " to " + compare.FormatChange(m.Interval[1]))
	}
	if m.Outcome != compare.Same {
		if row.P = fmt.Sprintf("%.3f", m.Corrected); m.Corrected < 0.001 {
			row.P = "< 0.001"
		}
	}
	return row
}

// The drawing of ratios: no change stands in its middle, and the same factor up
// or down goes as far to either side.
const (
	forestWidth = 200.0
	forestLeast = 0.1 // of a logarithm: the drawing shows ±10 % at least
	forestMost  = 1.2 // and ×3.3 at most
)

// forest is where a measure's ratio and its interval stand in a drawing.
type forest struct {
	Shown             bool
	Middle, Low, High float64
	Interval          bool
}

// forestScale is the logarithm that half of the drawing's width stands for.
func forestScale(all []compare.Measure) float64 {
	out := forestLeast
	for _, m := range all {
		if m.Interval != nil {
			for _, end := range m.Interval {
				if end > 0 {
					out = max(out, math.Abs(math.Log(end)))
				}
			}
		}
	}
	return min(1.1*out, forestMost)
}

func newForest(m compare.Measure, scale float64) forest {
	place := func(ratio float64) float64 {
		if ratio <= 0 {
			return 0
		}
		x := forestWidth / 2 * (1 + math.Log(ratio)/scale)
		return math.Round(10*min(max(x, 2), forestWidth-2)) / 10
	}
	f := forest{Shown: true, Middle: place(*m.Ratio)}
	if m.Interval != nil {
		f.Interval, f.Low, f.High = true, place(m.Interval[0]), place(m.Interval[1])
	}
	return f
}
