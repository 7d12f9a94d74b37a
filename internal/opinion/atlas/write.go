package atlas

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// JSON writes all that the atlas knows.
func (f File) JSON(w io.Writer) error {
	if err := text.JSON(w, f); err != nil {
		return fmt.Errorf("write atlas: %w", err)
	}
	return nil
}

// Write writes the table over all gates, for a terminal or as Markdown.
func (f File) Write(w io.Writer, markdown bool) error {
	var b strings.Builder
	t := text.Table{Head: []string{"gate", "stage", "default", "result"}, Left: 4}
	for _, total := range totals() {
		t.Head = append(t.Head, total.Title)
	}
	t.Head = append(t.Head, "CPU, memory, SLIs that differ")
	for _, e := range f.sorted() {
		t.Rows = append(t.Rows, f.row(e))
	}
	if markdown {
		fmt.Fprintf(&b, "# Feature gates: %s\n\n%s\n\n", text.Escape(f.Setup.Scenario), text.Escape(f.about()))
		t.Markdown(&b)
	} else {
		b.WriteString(strings.Join(text.Wrap(f.about(), 100), "\n") + "\n\n")
		t.Text(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write atlas: %w", err)
	}
	return nil
}

func (f File) sorted() []Entry {
	return slices.SortedFunc(slices.Values(f.Entries), func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}

// about says what was flown, and how much like runs differ.
func (f File) about() string {
	var spread []string
	for i, s := range f.Spread {
		spread = append(spread, fmt.Sprintf("%s %s", totals()[i].Title, unit.Text(s, "ratio")))
	}
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(f.Setup.Versions)) {
		if name == "kubernetes" || name == "etcd" {
			versions = append(versions, name+" "+f.Setup.Versions[name])
		}
	}
	return fmt.Sprintf("%d of %s flown, of %s (%s), on %s (%s). The change is that of the gate on beside off; a dash is a change within what like runs differ by. %s of the defaults differ by at most: %s.",
		len(f.Entries), unit.Count(max(f.Asked, len(f.Entries)), "gates"), strings.Join(f.Setup.Components, ", "), strings.Join(versions, ", "),
		unit.Count(f.Setup.Machine.Cores, "cores"), f.Setup.Machine.CPU, unit.Count(Defaults, "runs"), strings.Join(spread, ", "))
}

// row is a gate's line in the table.
func (f File) row(e Entry) []string {
	name := strings.Join(slices.Concat([]string{e.Name}, e.With), " with ")
	out := []string{name, e.Stage, onOff(e.Default), string(e.State)}
	for i := range totals() {
		out = append(out, f.sumChange(e, i))
	}
	costs := "not measured"
	if e.State == Movement || e.State == Unshown {
		costs = fmt.Sprint(len(e.Costs))
	}
	return append(out, costs)
}

// sumChange writes by how much a total differs with the gate on.
func (f File) sumChange(e Entry, i int) string {
	if i >= len(e.Sums) || i >= len(f.Defaults) || f.Defaults[i] == 0 || e.Sums[i] == 0 {
		return ""
	}
	change := e.Sums[i] / f.Defaults[i]
	if e.Default {
		change = 1 / change
	}
	if beyond := f.Spread[i]; change <= 1+beyond && change >= 1/(1+beyond) {
		return "–"
	}
	return compare.FormatChange(change)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Page writes one gate's page in Markdown.
func (e Entry) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s, %s by default, known to %s. Result: %s.\n", e.Name, e.Stage, onOff(e.Default), strings.Join(e.Components, ", "), e.State)
	if len(e.With) > 0 {
		fmt.Fprintf(&b, "\nIt cannot be turned alone. Turned with it: %s. The figures are those of all of them.\n", strings.Join(e.With, ", "))
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, "\n%s\n", text.Escape(e.Reason))
	}
	b.WriteString("\nThe load does not use the feature, and its counters begin when all components run: the answers are those of enabling it.\n")
	for _, a := range e.Answers() {
		fmt.Fprintf(&b, "\n**%s** %s\n", a.Question, text.Escape(a.Answer))
	}
	return b.String()
}
