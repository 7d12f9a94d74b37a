package report

import (
	"math"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The picture of the map, in pixels.
const (
	mapWidth   = 780.0
	mapColumns = 3
	mapRows    = 12 // of members that are drawn
	mapLine    = 14.0
	mapGap     = 10.0
	planeWidth = 150.0
	planeBus   = planeWidth + 15 // the line that all members hang on
	mapFirst   = planeBus + 15   // the first column of members
	pathBox    = 230.0
)

// mapView is the map as the page shows it.
type mapView struct {
	Boxes         []mapBox
	Lines         []mapStroke
	Texts         []mapText
	Width, Height float64
	Note          string
}

type mapBox struct {
	X, Y, W, H float64
	Name       string
	About      []mapText
}

type mapStroke struct{ X1, Y1, X2, Y2 float64 }

type mapText struct {
	X, Y float64
	Text string
}

// newMapView arranges the picture; nil where there is no map.
func newMapView(m *content.Map) *mapView {
	if m == nil {
		return nil
	}
	v := &mapView{Width: mapWidth, Height: 1} // the line around a box is not cut
	if len(m.Members) > 0 {
		v.addMembers(m)
	}
	for _, p := range m.Paths {
		v.addPath(p)
	}
	return v
}

// addMembers draws the plane at the left and the members at the right of a line that joins
// them all.
func (v *mapView) addMembers(m *content.Map) {
	drawn := m.Members[:min(len(m.Members), mapColumns*mapRows)]
	if left := len(m.Members) - len(drawn); left > 0 {
		v.Note = unit.Text(float64(left), "members") + " more, not drawn."
	}
	lines := 0
	for _, one := range drawn {
		lines = max(lines, len(one.About))
	}
	width := math.Floor((mapWidth - 1 - mapFirst - (mapColumns-1)*mapGap) / mapColumns)
	height := mapLine*float64(lines+1) + 8
	rows := (len(drawn) + mapColumns - 1) / mapColumns
	middle := func(row int) float64 { return v.Height + float64(row)*(height+mapGap) + height/2 }
	planeHeight := mapLine*float64(len(m.Plane)+1) + 8
	at := (middle(0) + middle(rows-1)) / 2
	v.Lines = append(v.Lines, mapStroke{planeWidth, at, planeBus, at}, mapStroke{planeBus, middle(0), planeBus, middle(rows - 1)})
	for row := range rows {
		last := min(mapColumns, len(drawn)-row*mapColumns) - 1
		v.Lines = append(v.Lines, mapStroke{planeBus, middle(row), mapFirst + float64(last)*(width+mapGap), middle(row)})
	}
	v.addBox(mapBox{X: 1, Y: max(v.Height, at-planeHeight/2), W: planeWidth - 1, H: planeHeight, Name: "the plane"}, m.Plane)
	for i, one := range drawn {
		row, column := i/mapColumns, i%mapColumns
		v.addBox(mapBox{X: mapFirst + float64(column)*(width+mapGap), Y: middle(row) - height/2, W: width, H: height, Name: one.Name}, one.About)
	}
	v.Height += max(float64(rows)*(height+mapGap), planeHeight+mapGap)
}

func (v *mapView) addBox(b mapBox, about []string) {
	for i, text := range about {
		b.About = append(b.About, mapText{b.X + 6, b.Y + mapLine*float64(i+2), text})
	}
	v.Boxes = append(v.Boxes, b)
}

// addPath draws a path: both ends, and between them what was found.
func (v *mapView) addPath(p content.MapPath) {
	height := mapLine*float64(max(1, len(p.Found))) + 8
	middle := v.Height + height + 2
	v.Lines = append(v.Lines, mapStroke{pathBox, middle, mapWidth - pathBox, middle})
	const tall = mapLine + 8
	v.addBox(mapBox{X: 1, Y: middle - tall/2, W: pathBox - 1, H: tall, Name: p.From}, nil)
	v.addBox(mapBox{X: mapWidth - pathBox, Y: middle - tall/2, W: pathBox - 1, H: tall, Name: p.To}, nil)
	for i, text := range p.Found {
		v.Texts = append(v.Texts, mapText{mapWidth / 2, middle - 6 - mapLine*float64(len(p.Found)-1-i), text})
	}
	v.Height = middle + mapLine + mapGap
}
