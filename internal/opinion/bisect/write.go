package bisect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// terminal is how wide lines of words are, in columns.
const terminal = 80

// JSON writes the state with its result.
func (f File) JSON(w io.Writer) error {
	if err := text.JSON(w, f); err != nil {
		return fmt.Errorf("write search: %w", err)
	}
	return nil
}

// page is a result under way to be written.
type page struct {
	strings.Builder
	markdown bool
}

// addLine adds a sentence, wrapped for a terminal.
func (p *page) addLine(format, markdown, sentence string) {
	if p.markdown {
		fmt.Fprintf(p, markdown+"\n", text.Escape(sentence))
		return
	}
	p.WriteString(strings.Join(text.Wrap(fmt.Sprintf(format, text.Clean(sentence)), terminal), "\n") + "\n")
}

// addTable adds rows under the first one.
func (p *page) addTable(rows [][]string, left int) {
	p.WriteString("\n")
	if t := (text.Table{Head: rows[0], Rows: rows[1:], Left: left}); p.markdown {
		t.Markdown(&p.Builder)
	} else {
		t.Text(&p.Builder)
	}
}

// Write writes the result for a terminal, or as Markdown.
func (f File) Write(w io.Writer, markdown bool) error {
	p := &page{markdown: markdown}
	p.addLine("windtunnel bisect  %s", "### windtunnel bisect: %s\n", f.Setup.Scenario)
	p.WriteString("\n")
	p.addLine("%s", "**%s**\n", f.Result.Sentence)
	for _, line := range f.describeEvidence() {
		p.addLine("%s", "- %s", line)
	}
	for _, note := range f.Result.Notes {
		p.addLine("! %s", "- :warning: %s", note)
	}
	if command := f.Command(); command != "" && markdown {
		fmt.Fprintf(p, "\nShow it again:\n\n```\n%s\n```\n", command)
	} else if command != "" {
		fmt.Fprintf(p, "\nshow it again: %s\n", text.Clean(command))
	}
	if f.Result.Measure != "" {
		p.addTable(f.combinationRows(), 2)
	}
	p.addTable(f.changeRows(), 4)
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("write search: %w", err)
	}
	return nil
}

// describeEvidence says in which measure the sides differ, and how surely the answer holds.
func (f File) describeEvidence() (out []string) {
	r := f.Result
	m, known := f.Search.Measures[r.Measure]
	if !known {
		return nil
	}
	change := "new in bad"
	if r.Good > 0 {
		change = unit.Text(r.Bad/r.Good-1, "ratio") + " more in bad"
		if r.Bad < r.Good {
			change = unit.Text(1-r.Bad/r.Good, "ratio") + " less in bad"
		}
	}
	out = append(out, fmt.Sprintf("Measure: %s. Good %s, bad %s: %s.", m.Title, unit.Text(r.Good, m.Unit), unit.Text(r.Bad, m.Unit), change))
	if r.Needed > 0 {
		out = append(out, fmt.Sprintf("Evidence: e-value %.3g, needed %.3g.", r.Evidence, r.Needed))
	}
	return append(out, fmt.Sprintf("Runs: %d of at most %d.", f.Search.Spent(), f.Search.Plan.Runs))
}

// Spent is how many of the runs that may be flown were.
func (s *Search) Spent() int {
	n := 0
	for _, r := range s.Runs {
		if r.State != Skipped {
			n++
		}
	}
	return n
}

// maxNamed is how many changes are named in a row.
const maxNamed = 3

// Describe names a combination of changes: "good", "bad", "rate, nodes", "all but rate".
func (p Plan) Describe(with []int) string {
	in := newConfig(len(p.Changes), with)
	var on, off []string
	for i, c := range p.Changes {
		name := c.Name
		if c.Chain != "" {
			name += "=" + c.To
		}
		switch {
		case !in[i]:
			off = append(off, name)
		case c.Chain != "" && i+1 < len(in) && p.Changes[i+1].Chain == c.Chain && in[i+1]: // a later one says it
		default:
			on = append(on, name)
		}
	}
	switch {
	case len(with) == 0:
		return "good"
	case len(off) == 0:
		return "bad"
	case len(on) <= maxNamed:
		return strings.Join(on, ", ")
	case len(off) <= maxNamed:
		return "all but " + strings.Join(off, ", ")
	}
	return fmt.Sprintf("%d of %s", len(with), unit.Count(len(in), "changes"))
}

// combinationRows are the curve of candidates: what each combination of changes came to in the
// measure, from good to bad.
func (f File) combinationRows() [][]string {
	type row struct {
		with   []int
		values []float64
	}
	rows := map[string]*row{}
	for _, r := range f.Search.Runs {
		v, measured := r.Values[f.Result.Measure]
		if r.State != Measured || !measured && !f.Search.Measures[f.Result.Measure].Counter {
			continue
		}
		key := newConfig(len(f.Search.Plan.Changes), r.With).key()
		if rows[key] == nil {
			rows[key] = &row{with: r.With}
		}
		rows[key].values = append(rows[key].values, v)
	}
	m := f.Search.Measures[f.Result.Measure]
	out := [][]string{{"CHANGES APPLIED", "", "RUNS", "LOWEST", "HIGHEST"}}
	order := slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		if d := len(a.with) - len(b.with); d != 0 {
			return d
		}
		return slices.Compare(a.with, b.with)
	})
	for _, r := range order {
		out = append(out, []string{
			f.Search.Plan.Describe(r.with), f.listNumbers(r.with), fmt.Sprint(len(r.values)),
			unit.Text(slices.Min(r.values), m.Unit), unit.Text(slices.Max(r.values), m.Unit),
		})
	}
	return out
}

// listNumbers writes changes by their numbers, from 1, as in the list of changes: "1-4 7".
func (f File) listNumbers(with []int) string {
	var out []string
	for i := 0; i < len(with); i++ {
		first := with[i]
		for i+1 < len(with) && with[i+1] == with[i]+1 {
			i++
		}
		if with[i] == first {
			out = append(out, fmt.Sprint(first+1))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", first+1, with[i]+1))
		}
	}
	return strings.Join(out, " ")
}

// changeRows list the changes, and those that are named or still possible.
func (f File) changeRows() [][]string {
	out := [][]string{{"CHANGE", "PARAMETER", "GOOD", "BAD", ""}}
	for i, c := range f.Search.Plan.Changes {
		mark := ""
		if slices.Contains(f.Result.Changes, i) {
			mark = "possible"
			if f.Result.Answer == One || f.Result.Answer == Together {
				mark = "cause"
			}
		}
		out = append(out, []string{fmt.Sprint(i + 1), c.Name, c.From, c.To, mark})
	}
	return out
}

// Command is the command line that shows one change again: on good, with and without it. Empty:
// the answer is not one change.
func (f File) Command() string {
	if f.Result.Answer != One {
		return ""
	}
	c := f.Search.Plan.Changes[f.Result.Changes[0]]
	words := []string{"windtunnel", "ab", f.File, "--a", c.Name + "=" + c.From, "--b", c.Name + "=" + c.To, "--measure", f.Search.Measures[f.Result.Measure].Title}
	for _, set := range []map[string]string{f.Setup.Set, f.Setup.Sides.Good} {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if name != c.Name {
				words = append(words, "--set", name+"="+set[name])
			}
		}
	}
	for i, w := range words {
		if strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]{}#~!`") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
