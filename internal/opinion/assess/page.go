package assess

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/atlas"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Format is the version of File; StateFile is its name in the folder of an assessment,
// PageFile the page's, and BundleFile that of the bundle.
const (
	Format     = 1
	StateFile  = "assess.json"
	PageFile   = "assess.md"
	BundleFile = "assess.wtb"
)

// File is the content of assess.json.
type File struct {
	Format   int               `json:"format"`
	Kind     Kind              `json:"kind"`
	Scenario string            `json:"scenario"`
	Set      map[string]string `json:"set"`
	Subject  Subject           `json:"subject"`
	Machine  record.Machine    `json:"machine"`
	Versions map[string]string `json:"versions"`
	Plan     Plan              `json:"plan"`
	Finished int               `json:"runs_finished"`
	LeftOut  []string          `json:"left_out"` // runs without an end, with the reason
	Level    string            `json:"level"`    // sentence of the bundle
	Noise    string            `json:"noise,omitempty"`
	Lengths  string            `json:"lengths,omitempty"` // feature: that the runs of both sides do not last equally long
	Answers  []Answer          `json:"answers,omitempty"`
	Feature  *atlas.Entry      `json:"feature,omitempty"`
	Claims   []Claim           `json:"claims"`
}

// JSON writes all figures.
func (f File) JSON(w io.Writer) error {
	if err := text.JSON(w, f); err != nil {
		return fmt.Errorf("write assessment: %w", err)
	}
	return nil
}

// question is a question of a template, and which answers it takes.
type question struct {
	text    string
	about   []string
	nothing string // what is said beside, or where no answer is asked for
}

const (
	nodesAreSimulated = "Not measured: nodes are simulated."
	noOtherSide       = "Not measured: all runs have the project. The command windtunnel assess feature compares runs without and with it. With growing size, in these runs:"
)

// questions are those of a template, in its words.
func (k Kind) questions() []question {
	if k == Release { // https://github.com/cncf/toc, general technical review, Day 2
		return []question{
			{"Describe how the project increases the size or count of existing API objects.", []string{aboutObjects, aboutBytes}, ""},
			{"Describe how the project defines Service Level Objectives (SLOs) and Service Level Indicators (SLIs).", []string{aboutBounds}, "The objectives of the scenario are:"},
			{"Describe any operations that will increase in time covered by existing SLIs/SLOs.", []string{aboutTimes}, noOtherSide},
			{"Describe the increase in resource usage in any components as a result of enabling this project, to include CPU, Memory, Storage, Throughput.", []string{aboutMemory, aboutCPU, aboutRequests}, ""},
			{"Describe which conditions enabling / using this project would result in resource exhaustion of some node resources (PIDs, sockets, inodes, etc.)", nil, nodesAreSimulated},
			{"Describe the load testing that has been performed on the project and the results.", []string{aboutFlown, string(Rate)}, ""},
			{"Describe the recommended limits of users, requests, system resources, etc. and how they were obtained.", []string{aboutLimits, string(Workers), string(Limiter)}, ""},
			{"Describe which resilience pattern the project uses and how, including the circuit breaker pattern.", []string{string(Restart)}, "The pattern is a matter of design. Measured is what a restart takes:"},
		}
	}
	return []question{
		{"Requests per managed object", []string{aboutRequests}, ""},
		{"Objects per managed object", []string{aboutObjects}, ""},
		{"Bytes per managed object", []string{aboutBytes}, ""},
		{"Memory model", []string{aboutMemory}, ""},
		{"CPU model", []string{aboutCPU}, ""},
		{"Latency by size", []string{aboutTimes}, ""},
		{"Churn", []string{string(Rate)}, ""},
		{"Workers", []string{string(Workers)}, ""},
		{"Client-side rate limit", []string{string(Limiter)}, ""},
		{"Restart and relist", []string{string(Restart)}, ""},
		{"Resync", []string{string(Resync)}, ""},
		{"Admission webhooks", []string{string(Webhook)}, ""},
		{"Limits", []string{aboutLimits}, ""},
		{"What was run", []string{aboutFlown}, ""},
	}
}

// Write writes the page, for a terminal too: it is to be pasted.
func (f File) Write(w io.Writer, _ bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Scalability of %s\n\n%s\n", text.Escape(strings.Join(f.Subject.Programs, ", ")), text.Escape(f.about()))
	for _, note := range []string{f.sides(), f.Noise, f.Lengths} {
		if note != "" {
			fmt.Fprintf(&b, "\n%s\n", text.Escape(note))
		}
	}
	if f.Feature != nil {
		for _, a := range f.Feature.Answers() {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", a.Question, text.Escape(a.Answer))
		}
	} else {
		b.WriteString("\nA figure for each object is that of all steps of the scenario, such as creating, changing and deleting it.\n")
		for _, q := range f.Kind.questions() {
			f.writeQuestion(&b, q)
		}
	}
	if len(f.LeftOut) > 0 {
		fmt.Fprintf(&b, "\n### Runs without an end\n\n%s\n", text.Escape(strings.Join(f.LeftOut, "; ")))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write assessment: %w", err)
	}
	return nil
}

// about says what was run where, and what the result is worth.
func (f File) about() string {
	return fmt.Sprintf("%d of %s of scenario %s finished, on %s (%s), Kubernetes %s. %s", f.Finished, unit.Count(f.Plan.Runs(), "runs"), f.Scenario,
		unit.Count(f.Machine.Cores, "cores"), f.Machine.CPU, strings.TrimPrefix(f.Versions["kubernetes"], "v"), f.Level)
}

// sides says how a feature was turned off and on.
func (f File) sides() string {
	if f.Feature == nil {
		return ""
	}
	var out []string
	for _, arm := range f.Plan.Arms {
		set := text.Pairs(arm.Set)
		if len(set) == 0 {
			set = []string{"the scenario's own values"}
		}
		out = append(out, arm.Name+": "+strings.Join(set, ", "))
	}
	return "Sides: " + strings.Join(out, "; ") + "."
}

// maxLines is how many lines of one unit a page has; assess.json has all.
const maxLines = 12

func (f File) writeQuestion(b *strings.Builder, q question) {
	fmt.Fprintf(b, "\n### %s\n", q.text)
	if q.nothing != "" {
		fmt.Fprintf(b, "\n%s\n", q.nothing)
	}
	for _, about := range q.about {
		i := slices.IndexFunc(f.Answers, func(a Answer) bool { return a.About == about })
		if i < 0 {
			continue
		}
		a := f.Answers[i]
		if a.Measured && (about == aboutFlown || about == aboutBounds) {
			b.WriteString("\n")
			for _, s := range a.Sentences {
				b.WriteString("- " + text.Escape(s) + "\n")
			}
			continue
		}
		b.WriteString("\n")
		if !a.Measured {
			fmt.Fprintf(b, "Not measured (%s): ", about)
		}
		b.WriteString(text.Escape(strings.Join(a.Sentences, " ")) + "\n")
		f.writeLines(b, a.Lines)
		a.writeRows(b)
	}
}

// writeLines tabulates what grows.
func (f File) writeLines(b *strings.Builder, all []Line) {
	size, _ := f.Plan.Sweep(Size)
	t := text.Table{Head: []string{"figure", "without objects", "for each of " + size.Param, "95 % interval", "shape"}, Left: 1}
	shown := map[string]int{}
	for _, l := range all {
		if shown[l.Unit]++; shown[l.Unit] > maxLines || !l.grows() {
			continue
		}
		t.Rows = append(t.Rows, []string{l.Name, unit.Text(l.Intercept.Value, l.Unit), unit.Text(l.Slope.Value, l.Unit), l.Slope.intervalText(l.Unit), l.Shape})
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
		t.Markdown(b)
	}
}

// writeRows tabulates a sweep: the median, and in brackets the least and the most.
func (a Answer) writeRows(b *strings.Builder) {
	if len(a.Rows) == 0 {
		return
	}
	t := text.Table{Head: []string{"median (least to most)"}, Left: 1}
	for _, v := range a.Values {
		t.Head = append(t.Head, a.Param+"="+v)
	}
	t.Head = append(t.Head, "apart")
	for _, r := range a.Rows {
		row := []string{r.Name}
		for _, c := range r.Cells {
			switch {
			case c.Runs == 0:
				row = append(row, "–")
			case c.Min == c.Max:
				row = append(row, unit.Text(c.Median, r.Unit))
			default:
				row = append(row, fmt.Sprintf("%s (%s)", unit.Text(c.Median, r.Unit), rangeText(c.Min, c.Max, r.Unit)))
			}
		}
		row = append(row, map[bool]string{true: "yes"}[r.Apart])
		t.Rows = append(t.Rows, row)
	}
	b.WriteString("\n")
	t.Markdown(b)
}
