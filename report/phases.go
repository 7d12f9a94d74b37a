package report

import (
	"math"

	"github.com/windtunnel/windtunnel/record"
)

// stackWidth is the width of a drawing of parts, in its own units.
const stackWidth = 400.0

// leastPart is how long the last part must take somewhere to be told, seconds.
const leastPart = 0.5e-3

// breakdownRows is one group's startup taken apart, as it is shown.
type breakdownRows struct {
	Group   string
	Columns int
	Rows    []breakdownRow
}

type breakdownRow struct {
	Name  string
	Pods  cell
	Bars  []stackBar
	Cells []cell
	Total cell
}

// stackBar is one part in a drawing.
type stackBar struct{ X, W float64 }

// breakdownRows are the parts' names and the groups. Every row of a group is
// drawn to the scale of its slowest one.
func (r *Report) breakdownRows() ([]string, []breakdownRows) {
	n := len(parts())
	if !r.readyLater() {
		n--
	}
	var names []string
	for _, p := range parts()[:n] {
		names = append(names, phaseWords(p.name))
	}
	var out []breakdownRows
	for _, b := range r.Breakdown {
		rows := breakdownRows{Group: orElse(b.Group, "(no group)"), Columns: n + 4}
		longest := 0.0
		for _, band := range b.Bands {
			longest = max(longest, band.Total)
		}
		for _, band := range b.Bands {
			rows.Rows = append(rows.Rows, newBreakdownRow(band, n, longest))
		}
		out = append(out, rows)
	}
	return names, out
}

// readyLater says whether some pods were running before they were ready.
func (r *Report) readyLater() bool {
	for _, b := range r.Breakdown {
		for _, band := range b.Bands {
			if band.Parts[len(band.Parts)-1] >= leastPart {
				return true
			}
		}
	}
	return false
}

func newBreakdownRow(b Band, parts int, longest float64) breakdownRow {
	row := breakdownRow{Name: b.Name, Pods: number(b.Pods), Total: quantity(b.Total, "s")}
	x := 0.0
	for _, p := range b.Parts[:parts] {
		w := 0.0
		if longest > 0 {
			w = p / longest * stackWidth
		}
		row.Bars = append(row.Bars, stackBar{math.Round(10*x) / 10, math.Round(10*w) / 10})
		row.Cells = append(row.Cells, quantity(p, "s"))
		x += w
	}
	return row
}

// faults are what was done to the plane, the fleet and the network, with when.
func (r *Report) faults() []pair {
	var out []pair
	for _, m := range r.charts.Marks {
		if m.Kind == record.MarkFault {
			out = append(out, pair{quantity(round(float64(m.At), 1), "s").Text + " " + m.Name, m.Text})
		}
	}
	return out
}
