package content

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

// newMap arranges what is known of clusters and paths; nil where there are neither.
func newMap(in *run.Run, j slo.Judgement) *Map {
	m := &Map{Paths: listPaths(in, j)}
	values, labels := mapValues(in), memberLabels(in.Manifest.Members)
	for _, g := range in.Manifest.Members {
		for i := range g.Count {
			name := g.Name + "-" + strconv.Itoa(i+1)
			m.Members = append(m.Members, MapMember{name, slices.Concat(aboutMember(g, labels[name]), values[name])})
		}
	}
	if len(m.Members) == 0 && len(m.Paths) == 0 {
		return nil
	}
	if n := in.Manifest.Fleet.Nodes; n > 0 && len(m.Members) > 0 {
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
func mapValues(in *run.Run) map[string][]string {
	out := map[string][]string{}
	if in.Scenario == nil || len(in.Scenario.Map) == 0 {
		return out
	}
	a, ok := newAsker(in)
	if !ok {
		return out
	}
	for _, v := range in.Scenario.Map {
		r, err := a.answerQuery(v.Query)
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

// listPaths returns the paths that the scenario's steps measured, with what they found.
func listPaths(in *run.Run, j slo.Judgement) (out []MapPath) {
	if in.Scenario == nil {
		return nil
	}
	turns := map[string]bool{}
	for step := range in.Scenario.AllSteps() {
		n := step.Network
		if n == nil || turns[n.Path] {
			continue
		}
		name, found := step.Name, foundOnStep(in.Facts, step.Name, j)
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

// foundOnStep is what a step found on its path; empty: nothing.
func foundOnStep(facts *run.Facts, step string, j slo.Judgement) string {
	var parts []string
	for _, c := range facts.Calls {
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
