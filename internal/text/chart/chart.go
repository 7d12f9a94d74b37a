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
	all := c.points()
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
	p.draw()
	if _, err := io.WriteString(w, p.out.String()); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

// points are all that can be drawn.
func (c Chart) points() []Point {
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
	return slices.DeleteFunc(out, func(p Point) bool { return !finite(p.X) || !finite(p.Y) })
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// picture is an image in the making.
type picture struct {
	chart Chart
	x, y  scale
	out   strings.Builder
}

func (p *picture) writef(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *picture) draw() {
	p.writef(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%s">`,
		width, height, width, height, escape(p.chart.Title))
	p.out.WriteString(styleSheet)
	p.writef(`<rect class="ground" width="%g" height="%g" rx="6"/>`, width, height)
	p.writef(`<text class="title" x="%g" y="32">%s</text>`, left, escape(p.chart.Title))
	p.writef(`<text class="soft" x="%g" y="54">%s</text>`, left, escape(p.chart.Note))
	p.axes()
	for _, a := range p.chart.Areas {
		p.writef(`<polygon class="area" fill="var(--%s)" points="%s"/>`, a.Role, p.path(a.Points))
	}
	for _, l := range p.chart.Lines {
		p.line(l)
	}
	for _, m := range p.chart.Marks {
		p.mark(m)
	}
	p.legend()
	p.writef("</svg>")
}

// axes draws the grid, the numbers and the labels.
func (p *picture) axes() {
	for _, v := range p.x.ticks() {
		x := p.x.at(v)
		p.writef(`<line class="grid" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="soft" x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x, x, top, bottom, x, bottom+20, escape(p.chart.X.text(v)))
	}
	for _, v := range p.y.ticks() {
		y := p.y.at(v)
		p.writef(`<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="soft" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			left, right, y, y, left-8, y+4, escape(p.chart.Y.text(v)))
	}
	p.writef(`<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/><line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`,
		left, right, bottom, bottom, left, left, top, bottom)
	p.writef(`<text x="%g" y="%g" text-anchor="middle">%s</text>`, (left+right)/2, bottom+44, escape(p.chart.X.Label))
	p.writef(`<text transform="translate(18 %g) rotate(-90)" text-anchor="middle">%s</text>`, (top+bottom)/2, escape(p.chart.Y.Label))
}

func (a Axis) text(v float64) string { return unit.Text(v, a.Unit) }

func (p *picture) path(points []Point) string {
	var out []string
	for _, v := range points {
		if finite(v.X) && finite(v.Y) {
			out = append(out, fmt.Sprintf("%.1f,%.1f", p.x.at(v.X), p.y.at(v.Y)))
		}
	}
	return strings.Join(out, " ")
}

func (p *picture) line(l Line) {
	if len(l.Points) == 0 {
		return
	}
	dash := ""
	if l.Role == Bound {
		dash = ` stroke-dasharray="6 5"`
	}
	p.writef(`<polyline class="line" stroke="var(--%s)"%s points="%s"/>`, l.Role, dash, p.path(l.Points))
	if end := l.Points[len(l.Points)-1]; l.Label != "" {
		p.writef(`<text class="soft" x="%.1f" y="%.1f" text-anchor="end">%s</text>`, min(p.x.at(end.X), right)-4, p.y.at(end.Y)-6, escape(l.Label))
	}
}

func (p *picture) mark(m Mark) {
	if finite(m.X) && finite(m.Y) {
		p.writef(`%s`, form(m.Role, p.x.at(m.X), p.y.at(m.Y), m.Label))
	}
}

// form draws a mark of a role.
func form(r Role, x, y float64, label string) string {
	title := ""
	if label != "" {
		title = "<title>" + escape(label) + "</title>"
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

// legend names the roles of marks that are there.
func (p *picture) legend() {
	x := right
	for _, k := range []Role{Unknown, Fail, Pass} {
		if !slices.ContainsFunc(p.chart.Marks, func(m Mark) bool { return m.Role == k }) {
			continue
		}
		p.writef(`<text class="soft" x="%g" y="32" text-anchor="end">%s</text>%s`, x, k, form(k, x-8.5*float64(len(k))-12, 28, ""))
		x -= 8.5*float64(len(k)) + 38
	}
}

// escape makes a text stand in XML as it is; characters that XML has no place
// for are replaced.
func escape(s string) string {
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
