package site

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

//go:embed site.tmpl
var markup string

// How much of what the page's data has is also written in its markup, which is there
// without JavaScript.
const (
	shownChanges = 20
	shownSeries  = 1000
	shownNotes   = 100
)

// Summary says what is on a page.
type Summary struct {
	Runs, Scenarios, Series, Changes, Bundles int
	LeftOut                                   []string // sentences
}

// view is what the template is filled from.
type view struct {
	Summary
	Lead        string
	Found       []changeView // newest first
	Rows        []row
	MoreChanges int
	MoreRows    int
	MoreNotes   int
	Published   []bundleView
}

type changeView struct {
	series      int // index in Data.Series
	started     int64
	State, Name string
	Glyph, Date string
	Text        string
}

type row struct {
	Index                                int
	Scenario, Label, State, Glyph        string
	Runs, Pass, Fail, Unknown, Date, Why string
}

// Write reads the results and writes the page. An error wraps ErrNothing where there are none.
func Write(ctx context.Context, w io.Writer, o Options) (Summary, error) {
	c, err := collect(ctx, o)
	if err != nil {
		return Summary{}, err
	}
	data := build(c.runs)
	v := newView(c, &data)
	var main bytes.Buffer
	t, err := template.New("site").Parse(markup)
	if err == nil {
		err = t.Execute(&main, v)
	}
	if err != nil {
		return v.Summary, fmt.Errorf("make site: %w", err)
	}
	page := report.Page{Kind: report.KindSite, State: report.StateCompared, Title: "Results – windtunnel", Name: v.Lead, Main: template.HTML(main.String()), Site: data, Made: o.Version}
	return v.Summary, page.HTML(w)
}

func newView(c *collector, data *Data) *view {
	v := &view{Summary: Summary{Series: len(data.Series), Bundles: len(c.bundles), LeftOut: c.notes}, Published: c.bundles}
	scenarios := map[string]bool{}
	for i, s := range data.Series {
		scenarios[s.Scenario] = true
		v.Runs += len(s.Names)
		v.Rows = append(v.Rows, newRow(i, s))
		v.Found = append(v.Found, changesOf(i, s)...)
	}
	v.Scenarios, v.Changes = len(scenarios), len(v.Found)
	v.Lead = fmt.Sprintf("%s of %s", unit.Count(v.Runs, "runs"), unit.Count(v.Scenarios, "scenarios"))
	if v.Changes > 0 {
		v.Lead += ", " + unit.Count(v.Changes, "changes") + " of level"
	}
	slices.SortStableFunc(v.Found, func(a, b changeView) int { return -cmp.Compare(a.started, b.started) })
	v.Found, v.MoreChanges = cut(v.Found, shownChanges)
	v.Rows, v.MoreRows = cut(v.Rows, shownSeries)
	v.LeftOut, v.MoreNotes = cut(v.LeftOut, shownNotes)
	return v
}

// cut returns the first of some things, and how many more there are.
func cut[T any](all []T, most int) ([]T, int) {
	n := min(len(all), most)
	return all[:n], len(all) - n
}

func newRow(i int, s *Series) row {
	newest := map[byte]slo.Verdict{'p': slo.Pass, 'f': slo.Fail, 'u': slo.Unknown}[s.Verdicts[len(s.Verdicts)-1]]
	return row{
		Index: i, Scenario: text.Clean(s.Scenario), Label: text.Clean(s.Label), State: string(newest), Glyph: glyphOf(string(newest)), Date: dateOf(last(s.Started)), Why: s.Sentence,
		Runs: unit.Number(float64(len(s.Names))), Pass: unit.Number(float64(s.count(slo.Pass))), Fail: unit.Number(float64(s.count(slo.Fail))), Unknown: unit.Number(float64(s.count(slo.Unknown))),
	}
}

func changesOf(i int, s *Series) (out []changeView) {
	name := s.Scenario
	if s.Label != "" {
		name += ", " + s.Label
	}
	for m := range s.Measures {
		for _, c := range s.Changes[m] {
			state := map[string]string{worse: "fail", better: "pass", accepted: "equivalent", suspected: "unknown"}[c.State]
			glyph := map[string]string{worse: "✕", better: "✓", accepted: "=", suspected: "?"}[c.State]
			out = append(out, changeView{i, s.Started[c.At], state, text.Clean(name), glyph, dateOf(s.Started[c.At]), text.Sentence(text.Clean(c.Sentence))})
		}
	}
	return out
}

func glyphOf(verdict string) string {
	return map[string]string{"pass": "✓", "fail": "✕", "unknown": "?"}[verdict]
}

func dateOf(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.DateOnly) }
