package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The picture of members over time: the slowest ones, a row each.
const (
	drawnMembers   = 60
	memberColumns  = 120
	memberRowPixel = 14.0
	memberWidth    = 780.0 // pixels of all cells, at most
	widestCell     = 20.0
	memberNames    = 150.0 // pixels before the cells
	listedMembers  = 10    // in the table
)

// membersView is what the page shows of members.
type membersView struct {
	Rows          []memberLine // the slowest
	Count         int
	Names         []drawnName
	Cells         []drawnCell
	Width, Height float64
	Cell          float64 // pixels
	Axis          string
	Note          string
}

type memberLine struct{ Name, Labels, Calls, Bad, P50, P99, Max string }

type drawnName struct {
	Y    float64
	Name string
}

// drawnCell is the calls to a member in one stretch of time: the darker, the slower
// the slowest of them was.
type drawnCell struct {
	X, Y, Dark float64
	Bad        bool
	Title      string
}

// newMembersView arranges the members for the page; nil where there are none.
func newMembersView(r *content.Report) *membersView {
	if len(r.Members) == 0 {
		return nil
	}
	v := &membersView{Count: len(r.Members)}
	for _, m := range r.Members[:min(listedMembers, len(r.Members))] {
		v.Rows = append(v.Rows, memberLine{m.Name, m.Labels, unit.Number(float64(m.N)), unit.Number(float64(m.Bad)), unit.Seconds(m.P50), unit.Seconds(m.P99), unit.Seconds(m.Max)})
	}
	drawn := r.Members[:min(drawnMembers, len(r.Members))]
	first, width, columns := memberGrid(drawn)
	v.Cell = math.Floor(min(widestCell, memberWidth/float64(columns)))
	for i, m := range drawn {
		y := float64(i) * memberRowPixel
		v.Names = append(v.Names, drawnName{y + memberRowPixel - 3, m.Name})
		for k, b := range m.Cluster.Rebin(width) {
			if b.Calls == 0 {
				continue
			}
			at := time.Duration(k) * width
			v.Cells = append(v.Cells, drawnCell{
				X: memberNames + float64(k-first)*v.Cell, Y: y, Dark: cellDarkness(b.Slowest), Bad: b.Bad > 0,
				Title: fmt.Sprintf("%s, from %s: %s, slowest %s, %d not answered with success", m.Name, unit.Seconds(at.Seconds()), unit.Count(b.Calls, "calls"), unit.Seconds(b.Slowest.Seconds()), b.Bad),
			})
		}
	}
	v.Width, v.Height = memberNames+float64(columns)*v.Cell, float64(len(drawn))*memberRowPixel
	v.Axis = fmt.Sprintf("from %s to %s of the run, %s a column", unit.Seconds((time.Duration(first) * width).Seconds()),
		unit.Seconds((time.Duration(first+columns) * width).Seconds()), unit.Seconds(width.Seconds()))
	if len(drawn) < len(r.Members) {
		v.Note = fmt.Sprintf("The %d slowest of %d members, by the 99th percentile.", len(drawn), len(r.Members))
	}
	return v
}

// memberGrid returns the first column of the picture, the width of all and how many
// there are.
func memberGrid(all []content.MemberRow) (first int, width time.Duration, columns int) {
	for _, m := range all {
		width = max(width, m.Cluster.Width)
	}
	for ; ; width *= 2 {
		first, last := math.MaxInt, 0
		for _, m := range all {
			for k, b := range m.Cluster.Rebin(width) {
				if b.Calls > 0 {
					first, last = min(first, k), max(last, k)
				}
			}
		}
		if columns := last - first + 1; columns <= memberColumns {
			return first, width, columns
		}
	}
}

// cellDarkness is how dark a cell is: 1 ms and less is light, 10 s and more is full.
func cellDarkness(slowest time.Duration) float64 {
	share := (math.Log10(max(slowest.Seconds(), 1e-3)) + 3) / 4
	return math.Round(100*(0.1+0.9*min(share, 1))) / 100
}

// writeMembers names the slowest members.
func (t *summaryText) writeMembers(r *content.Report) {
	if len(r.Members) == 0 {
		return
	}
	const figures = 10 + 8 + 12 + 12
	name := t.width - figures
	t.writeHeading(padRight(fmt.Sprintf("MEMBERS (%d, THE SLOWEST)", len(r.Members)), name) + padLeft("CALLS", 10) + padLeft("BAD", 8) + padLeft("P99", 12) + padLeft("MAX", 12))
	for _, m := range r.Members[:min(5, len(r.Members))] {
		t.writeLine(padRight(cutToWidth(strings.TrimSpace(m.Name+" "+m.Labels), name-1), name) + padLeft(unit.Number(float64(m.N)), 10) +
			padLeft(unit.Number(float64(m.Bad)), 8) + padLeft(unit.Seconds(m.P99), 12) + padLeft(unit.Seconds(m.Max), 12))
	}
}
