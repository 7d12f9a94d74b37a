package report

import (
	"cmp"
	"math"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/record"
)

// stackWidth is the width of a drawing of parts, in its own units.
const stackWidth = 400.0

// minPart is how long the last part must take somewhere to be told, seconds.
const minPart = 0.5e-3

// partedRows are a life's groups taken apart, as they are shown.
type partedRows struct {
	Noun   string // of the objects
	Parts  []string
	Groups []breakdownRows
}

// breakdownRows is one group taken apart.
type breakdownRows struct {
	Group   string
	Columns int
	Rows    []breakdownRow
}

type breakdownRow struct {
	Name   string
	Number cell
	Bars   []stackBar
	Cells  []cell
	Total  cell
}

// stackBar is one part in a drawing.
type stackBar struct{ X, W float64 }

// podBreakdown is the startup of pods taken apart. The last part is left out where
// pods are ready as soon as they run.
func podBreakdown(r *content.Report) partedRows {
	names := r.PodParts
	if !anyReadyLater(r) && len(names) > 0 {
		names = names[:len(names)-1]
	}
	return newPartedRows("Pods", names, r.Breakdown)
}

// newPartedRows takes groups apart into the parts named. Every row of a group is drawn
// to the scale of its slowest one.
func newPartedRows(noun string, names []string, all []content.Breakdown) partedRows {
	n := len(names)
	out := partedRows{Noun: noun}
	for _, name := range names {
		out.Parts = append(out.Parts, phaseWords(name))
	}
	for _, b := range all {
		rows := breakdownRows{Group: cmp.Or(b.Group, "(no group)"), Columns: n + 4}
		longest := 0.0
		for _, band := range b.Bands {
			longest = max(longest, band.Total)
		}
		for _, band := range b.Bands {
			rows.Rows = append(rows.Rows, newBreakdownRow(band, n, longest))
		}
		out.Groups = append(out.Groups, rows)
	}
	return out
}

// anyReadyLater says whether some pods were running before they were ready.
func anyReadyLater(r *content.Report) bool {
	for _, b := range r.Breakdown {
		for _, band := range b.Bands {
			if band.Parts[len(band.Parts)-1] >= minPart {
				return true
			}
		}
	}
	return false
}

func newBreakdownRow(b content.Band, parts int, longest float64) breakdownRow {
	row := breakdownRow{Name: b.Name, Number: numberCell(b.Objects), Total: quantityCell(b.Total, "s")}
	x := 0.0
	for _, p := range b.Parts[:parts] {
		w := 0.0
		if longest > 0 {
			w = p / longest * stackWidth
		}
		row.Bars = append(row.Bars, stackBar{math.Round(10*x) / 10, math.Round(10*w) / 10})
		row.Cells = append(row.Cells, quantityCell(p, "s"))
		x += w
	}
	return row
}

// faultRows are what was done to the plane, the fleet and the network, with when.
func faultRows(r *content.Report) []pair {
	var out []pair
	for _, m := range r.Charts.Marks {
		if m.Kind == string(record.EventFault) {
			out = append(out, pair{quantityCell(roundTo(float64(m.At), 1), "s").Text + " " + m.Name, m.Text})
		}
	}
	return out
}

// lifecycleView is a declared lifecycle as the page shows it.
type lifecycleView struct {
	ID, Name string
	Rows     []spreadRow
	Parted   partedRows
}

func newLifecycleViews(r *content.Report) []lifecycleView {
	var out []lifecycleView
	for i, l := range r.Declared {
		out = append(out, lifecycleView{"lifecycle-" + strconv.Itoa(i+1), l.Name, spreadRows(l.Spreads), newPartedRows("Objects", l.Parts, l.Breakdown)})
	}
	return out
}
