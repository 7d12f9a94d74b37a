// Package chart draws points, lines and areas on two axes as an SVG image that
// stands by itself: no script, no font of its own, readable in light and dark.
//
// It knows nothing of runs and computes no statistics; the charts of a run's
// report, which can be pointed at and zoomed, are package report's.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrEmpty says that there is nothing to draw.
var ErrEmpty = errors.New("a chart without points")

// Role says what a mark, a line or an area stands for. It decides colour and, for
// marks, the form, so that colour is not needed to tell them apart.
type Role string

// The roles.
const (
	Pass    Role = "pass"    // a disc
	Fail    Role = "fail"    // a cross
	Unknown Role = "unknown" // a hollow diamond
	Plain   Role = "plain"   // a small disc
	Bound   Role = "bound"   // a dashed line
)

// Point is a place in the units of the axes.
type Point struct{ X, Y float64 }

// Axis is one of the two.
type Axis struct {
	Label string
	Unit  string // as package unit knows it; empty: plain numbers
	Log   bool   // all values are then positive
	Zero  bool   // begins at 0, if it is not logarithmic
}

// Mark is one point.
type Mark struct {
	Point
	Role  Role
	Label string // shown when pointed at
}

// Line joins points in their order.
type Line struct {
	Role   Role
	Label  string // at its end
	Points []Point
}

// Area is filled; its outline is closed from the last point to the first.
type Area struct {
	Role   Role
	Points []Point
}

// Chart is what is drawn: areas first, then lines, then marks.
type Chart struct {
	Title, Note string // the note is a sentence below the title
	X, Y        Axis
	Areas       []Area
	Lines       []Line
	Marks       []Mark
}

// The picture's size and the place of the axes in it.
const (
	width, height = 860.0, 500.0
	left, right   = 84.0, 828.0
	top, bottom   = 84.0, 436.0
)

const styleSheet = `<style>
svg{--ink:#1f2328;--soft:#59636e;--grid:#d8dee4;--ground:#ffffff;--pass:#1a7f37;--fail:#cf222e;--unknown:#9a6700;--plain:#0969da;--bound:#59636e}
@media (prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9198a1;--grid:#30363d;--ground:#0d1117;--pass:#3fb950;--fail:#f85149;--unknown:#d29922;--plain:#58a6ff;--bound:#9198a1}}
text{font:13px system-ui,sans-serif;fill:var(--ink)}.title{font-size:17px;font-weight:600}.soft{fill:var(--soft)}
.ground{fill:var(--ground)}.grid{stroke:var(--grid)}.axis{stroke:var(--soft)}
.line{fill:none;stroke-width:2}.area{opacity:.14}.mark{stroke-width:2}
</style>
`

// SVG writes the image. ErrEmpty where there is no point in it.
func (c Chart) SVG(w io.Writer) error {
	all := c.allPoints()
	if len(all) == 0 {
		return ErrEmpty
	}
	p := picture{chart: c}
	p.x = newScale(c.X, left, right, slices.Collect(func(yield func(float64) bool) {
		for _, v := range all {
			yield(v.X)
		}
	}))
	p.y = newScale(c.Y, bottom, top, slices.Collect(func(yield func(float64) bool) {
		for _, v := range all {
			yield(v.Y)
		}
	}))
	p.drawChart()
	if _, err := io.WriteString(w, p.out.String()); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

// allPoints are all that can be drawn.
func (c Chart) allPoints() []Point {
	var out []Point
	for _, a := range c.Areas {
		out = append(out, a.Points...)
	}
	for _, l := range c.Lines {
		out = append(out, l.Points...)
	}
	for _, m := range c.Marks {
		out = append(out, m.Point)
	}
	return slices.DeleteFunc(out, func(p Point) bool { return !isFinite(p.X) || !isFinite(p.Y) })
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// picture is an image in the making.
type picture struct {
	chart Chart
	x, y  scale
	out   strings.Builder
}

func (p *picture) writef(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *picture) drawChart() {
	p.writef(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%s">`,
		width, height, width, height, escapeXML(p.chart.Title))
	p.out.WriteString(styleSheet)
	p.writef(`<rect class="ground" width="%g" height="%g" rx="6"/>`, width, height)
	p.writef(`<text class="title" x="%g" y="32">%s</text>`, left, escapeXML(p.chart.Title))
	p.writef(`<text class="soft" x="%g" y="54">%s</text>`, left, escapeXML(p.chart.Note))
	p.drawAxes()
	for _, a := range p.chart.Areas {
		p.writef(`<polygon class="area" fill="var(--%s)" points="%s"/>`, a.Role, p.pathPoints(a.Points))
	}
	for _, l := range p.chart.Lines {
		p.drawLine(l)
	}
	for _, m := range p.chart.Marks {
		p.drawMark(m)
	}
	p.drawLegend()
	p.writef("</svg>")
}

// drawAxes draws the grid, the numbers and the labels.
func (p *picture) drawAxes() {
	for _, v := range p.x.tickValues() {
		x := p.x.positionOf(v)
		p.writef(`<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="soft" x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x, x, top, bottom, x, bottom+20, escapeXML(p.chart.X.formatValue(v)))
	}
	for _, v := range p.y.tickValues() {
		y := p.y.positionOf(v)
		p.writef(`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, right, y, y, left-8, y+4, escapeXML(p.chart.Y.formatValue(v)))
	}
	p.writef(`<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/><line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`,
		left, right, bottom, bottom, left, left, top, bottom)
	p.writef(`<text x="%g" y="%g" text-anchor="middle">%s</text>`, (left+right)/2, bottom+44, escapeXML(p.chart.X.Label))
	p.writef(`<text transform="translate(18 %g) rotate(-90)" text-anchor="middle">%s</text>`, (top+bottom)/2, escapeXML(p.chart.Y.Label))
}

func (a Axis) formatValue(v float64) string { return unit.Text(v, a.Unit) }

func (p *picture) pathPoints(points []Point) string {
	var out []string
	for _, v := range points {
		if isFinite(v.X) && isFinite(v.Y) {
			out = append(out, fmt.Sprintf("%.1f,%.1f", p.x.positionOf(v.X), p.y.positionOf(v.Y)))
		}
	}
	return strings.Join(out, " ")
}

func (p *picture) drawLine(l Line) {
	if len(l.Points) == 0 {
		return
	}
	dash := ""
	if l.Role == Bound {
		dash = ` stroke-dasharray="6 5"`
	}
	p.writef(`<polyline class="line" stroke="var(--%s)"%s points="%s"/>`, l.Role, dash, p.pathPoints(l.Points))
	if end := l.Points[len(l.Points)-1]; l.Label != "" {
		p.writef(`<text class="soft" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, min(p.x.positionOf(end.X), right)-4, p.y.positionOf(end.Y)-6, escapeXML(l.Label))
	}
}

func (p *picture) drawMark(m Mark) {
	if isFinite(m.X) && isFinite(m.Y) {
		p.writef(`%s`, markShape(m.Role, p.x.positionOf(m.X), p.y.positionOf(m.Y), m.Label))
	}
}

// markShape draws a mark of a role.
func markShape(r Role, x, y float64, label string) string {
	title := ""
	if label != "" {
		title = "<title>" + escapeXML(label) + "</title>"
	}
	switch r {
	case Fail:
		return fmt.Sprintf(`<path class="mark" stroke="var(--fail)" d="M%.1f %.1fl10 10m0 -10l-10 10">%s</path>`, x-5, y-5, title)
	case Unknown:
		return fmt.Sprintf(`<path class="mark" fill="var(--ground)" stroke="var(--unknown)" d="M%.1f %.1fl6 6l-6 6l-6 -6z">%s</path>`, x, y-6, title)
	case Pass:
		return fmt.Sprintf(`<circle class="mark" fill="var(--pass)" cx="%.1f" cy="%.1f" r="5">%s</circle>`, x, y, title)
	}
	return fmt.Sprintf(`<circle fill="var(--%s)" cx="%.1f" cy="%.1f" r="3.5">%s</circle>`, r, x, y, title)
}

// drawLegend names the roles of marks that are there.
func (p *picture) drawLegend() {
	x := right
	for _, k := range []Role{Unknown, Fail, Pass} {
		if !slices.ContainsFunc(p.chart.Marks, func(m Mark) bool { return m.Role == k }) {
			continue
		}
		p.writef(`<text class="soft" x="%g" y="32" text-anchor="end">%s</text>%s`, x, k, markShape(k, x-8.5*float64(len(k))-12, 28, ""))
		x -= 8.5*float64(len(k)) + 38
	}
}

// escapeXML makes a text stand in XML as it is; characters that XML has no place
// for are replaced.
func escapeXML(s string) string {
	s = strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return ' '
		}
		if c < 0x20 || c == 0x7f || c == 0xfffe || c == 0xffff {
			return '\ufffd'
		}
		return c
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
