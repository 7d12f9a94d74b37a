package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Map is the clusters of a run and the paths that it measured.
type Map struct {
	Plane   []string    // what is said of the plane, a line each
	Members []MapMember // in the order of their groups and numbers
	Paths   []MapPath
}

// MapMember is one of the clusters beside the plane.
type MapMember struct {
	Name  string
	About []string // a line each
}

// MapPath is a path between two addresses that steps of the scenario measured.
type MapPath struct {
	From, To string
	Found    []string // by each of the steps, a line each
}

// mapOf arranges what is known of clusters and paths; nil where there are neither.
func (t *tally) mapOf(j slo.Judgement) *Map {
	m := &Map{Paths: t.paths(j)}
	values, labels := t.mapValues(), memberLabels(t.run.Manifest.Members)
	for _, g := range t.run.Manifest.Members {
		for i := range g.Count {
			name := g.Name + "-" + strconv.Itoa(i+1)
			m.Members = append(m.Members, MapMember{name, slices.Concat(aboutMember(g, labels[name]), values[name])})
		}
	}
	if len(m.Members) == 0 && len(m.Paths) == 0 {
		return nil
	}
	if n := t.run.Manifest.Fleet.Nodes; n > 0 && len(m.Members) > 0 {
		m.Plane = append(m.Plane, unit.Text(float64(n), "nodes")+" of its own")
	}
	return m
}

func aboutMember(g record.MembersFact, labels string) (out []string) {
	out = append(out, strings.TrimSpace(g.Kind+" "+labels))
	if g.Nodes > 0 {
		out = append(out, unit.Text(float64(g.Nodes), "nodes"))
	}
	if g.RoundTripSeconds > 0 {
		out = append(out, unit.Seconds(g.RoundTripSeconds)+" away")
	}
	return out
}

// mapValues are the lines that the scenario's queries give each member: the largest value
// over the run.
func (t *tally) mapValues() map[string][]string {
	out := map[string][]string{}
	if t.run.Scenario == nil || len(t.run.Scenario.Map) == 0 {
		return out
	}
	a, ok := t.asker()
	if !ok {
		return out
	}
	for _, v := range t.run.Scenario.Map {
		r, err := a.answer(v.Query)
		if err != nil {
			continue // a query that nothing answers says nothing of any member
		}
		for _, s := range r.Series {
			most := math.Inf(-1)
			for _, p := range s.Points {
				if p.Histogram == nil {
					most = max(most, p.Value)
				}
			}
			if name := memberOf(s.Labels); name != "" && !math.IsInf(most, 0) {
				out[name] = append(out[name], v.Name+": "+unit.Text(most, v.Unit))
			}
		}
	}
	return out
}

// memberOf is the member that a series is of; empty: it is of none.
func memberOf(labels []record.Label) (name string) {
	for _, l := range labels {
		if l.Name == "member" || l.Name == "cluster" {
			name = cmp.Or(name, l.Value)
		}
	}
	return name
}

// paths are those that the scenario's steps measured, with what they found.
func (t *tally) paths(j slo.Judgement) (out []MapPath) {
	if t.run.Scenario == nil {
		return nil
	}
	turns := map[string]bool{}
	for step := range t.run.Scenario.AllSteps() {
		n := step.Network
		if n == nil || turns[n.Path] {
			continue
		}
		name, found := step.Name, t.foundOn(step.Name, j)
		if n.Path != "" {
			turns[n.Path] = true // once for all of them
			name, found = n.Path+" in turns", foundInTurns(n.Path, j)
		}
		if found == "" {
			continue
		}
		from, to := endName(n.From), endName(n.To)
		i := slices.IndexFunc(out, func(p MapPath) bool { return p.From == from && p.To == to })
		if i < 0 {
			i, out = len(out), append(out, MapPath{From: from, To: to})
		}
		out[i].Found = append(out[i].Found, name+": "+found)
	}
	return out
}

func endName(e scenario.NetworkEnd) string {
	if e.Worker != nil {
		return strings.TrimSpace(fmt.Sprintf("worker %d %s", *e.Worker, e.Address))
	}
	return cmp.Or(strings.TrimSpace(e.Namespace[strings.LastIndexByte(e.Namespace, '/')+1:]+" "+e.Address), "this machine")
}

// foundOn is what a step found on its path; empty: nothing.
func (t *tally) foundOn(step string, j slo.Judgement) string {
	var parts []string
	for _, c := range t.facts.Calls {
		if c.Source == sli.Network && c.Step == step && c.Count() > 0 {
			parts = append(parts, roundTrip(c))
		}
	}
	if m, ok := j.Measures[slo.Key("network_throughput", step)]; ok {
		parts = append(parts, unit.Text(m.Value, m.Unit))
	}
	return strings.Join(parts, ", ")
}

// foundInTurns is what all turns of a path found: their medians.
func foundInTurns(path string, j slo.Judgement) string {
	var parts []string
	for _, name := range []string{"network_turns_round_trip_p50_seconds", "network_turns_throughput"} {
		if m, ok := j.Measures[slo.Key(name, path)]; ok {
			parts = append(parts, unit.Text(m.Value, m.Unit))
		}
	}
	return strings.Join(parts, ", ")
}

func roundTrip(c *run.Calls) string {
	text := fmt.Sprintf("%s p50, %s p99", unit.Seconds(c.Service.Quantile(0.5).Value), unit.Seconds(c.Service.Quantile(0.99).Value))
	if c.Lost > 0 {
		text += fmt.Sprintf(", %s lost", unit.Text(float64(c.Lost)/float64(c.Count()), "ratio"))
	}
	return text
}

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

// view arranges the picture; nil where there is no map.
func (m *Map) view() *mapView {
	if m == nil {
		return nil
	}
	v := &mapView{Width: mapWidth, Height: 1} // the line around a box is not cut
	if len(m.Members) > 0 {
		v.members(m)
	}
	for _, p := range m.Paths {
		v.path(p)
	}
	return v
}

// members draws the plane at the left and the members at the right of a line that joins
// them all.
func (v *mapView) members(m *Map) {
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
	v.box(mapBox{X: 1, Y: max(v.Height, at-planeHeight/2), W: planeWidth - 1, H: planeHeight, Name: "the plane"}, m.Plane)
	for i, one := range drawn {
		row, column := i/mapColumns, i%mapColumns
		v.box(mapBox{X: mapFirst + float64(column)*(width+mapGap), Y: middle(row) - height/2, W: width, H: height, Name: one.Name}, one.About)
	}
	v.Height += max(float64(rows)*(height+mapGap), planeHeight+mapGap)
}

func (v *mapView) box(b mapBox, about []string) {
	for i, text := range about {
		b.About = append(b.About, mapText{b.X + 6, b.Y + mapLine*float64(i+2), text})
	}
	v.Boxes = append(v.Boxes, b)
}

// path draws a path: both ends, and between them what was found.
func (v *mapView) path(p MapPath) {
	height := mapLine*float64(max(1, len(p.Found))) + 8
	middle := v.Height + height + 2
	v.Lines = append(v.Lines, mapStroke{pathBox, middle, mapWidth - pathBox, middle})
	const tall = mapLine + 8
	v.box(mapBox{X: 1, Y: middle - tall/2, W: pathBox - 1, H: tall, Name: p.From}, nil)
	v.box(mapBox{X: mapWidth - pathBox, Y: middle - tall/2, W: pathBox - 1, H: tall, Name: p.To}, nil)
	for i, text := range p.Found {
		v.Texts = append(v.Texts, mapText{mapWidth / 2, middle - 6 - mapLine*float64(len(p.Found)-1-i), text})
	}
	v.Height = middle + mapLine + mapGap
}
