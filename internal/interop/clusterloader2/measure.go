package clusterloader2

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/scenario"
)

// callsOf returns the uses of measurements in a step.
func (l *lowering) callsOf(s *config.Step) []call {
	var out []call
	for i := range s.Measurements {
		m := &s.Measurements[i]
		c := call{method: m.Method, identifier: m.Identifier, params: m.Params, where: m.Position(), im: l.importer}
		c.field = fmt.Sprintf("measurements[%d]", i)
		if len(m.Instances) == 0 {
			out = append(out, c)
			continue
		}
		for j := range m.Instances {
			one := c
			one.identifier = m.Instances[j].Identifier
			one.params = m.Instances[j].Params.Over(m.Params)
			out = append(out, one)
		}
	}
	return out
}

// lowerMeasurement lowers one use. It goes by the parameters of this use and those of its
// start, each where ClusterLoader2 reads it.
func (l *lowering) lowerMeasurement(c call) []scenario.Step {
	m, key := l.findMethod(c.method), c.measurementKey()
	begun, ok := l.started[key]
	if m.lower == nil || !c.checkAction(m, ok) {
		return nil
	}
	var before *beginning
	if ok && c.actionOf() != start {
		before = &begun
	}
	c.tellParams(m, before)
	if c.actionOf() == start {
		begun = beginning{params: c.params, mark: l.nextStep()}
		l.started[key] = begun
	}
	c.params = c.readAt(m, before)
	return m.lower(l, c, begun.mark)
}

// measurementKey tells one measurement from another; a timer has several, by label.
func (c call) measurementKey() string {
	if c.method == "Timer" {
		return c.method + "/" + c.identifier + "/" + c.readText("label", "")
	}
	return c.method + "/" + c.identifier
}

// actionOf is start, gather, stop ...; empty where a method has none.
func (c call) actionOf() string {
	a, _ := c.params.Values["action"].(string)
	return a
}

// givesResult tells whether this is the use that gives the result.
func (c call) givesResult() bool { return c.actionOf() == "gather" || c.actionOf() == "" }

// results adds what is judged and what is measured.
type results struct {
	out   *scenario.Scenario
	spans []span
}

// addUnsupported adds an objective that nobody can judge here.
func (l *results) addUnsupported(name, why string) {
	for i := range l.out.Objectives {
		if l.out.Objectives[i].Name == name && l.out.Objectives[i].Unsupported != "" {
			return
		}
	}
	l.out.Objectives = append(l.out.Objectives, scenario.Objective{Name: name, Unsupported: why})
}

// addObjective adds an objective; one of a query is about the time since a mark.
func (l *results) addObjective(o scenario.Objective, since int) {
	name := o.Name
	for n := 2; l.objectiveClashes(o); n++ {
		o.Name = fmt.Sprintf("%s %d", name, n)
	}
	if o.Query != "" {
		l.spans = append(l.spans, span{len(l.out.Objectives), -1, since, l.nextStep()})
	}
	l.out.Objectives = append(l.out.Objectives, o)
}

// objectiveClashes tells whether an objective cannot be told from one before it.
func (l *results) objectiveClashes(o scenario.Objective) bool {
	for _, x := range l.out.Objectives {
		if x.Name == o.Name && x.Statistic == o.Statistic && fmt.Sprint(x.Labels) == fmt.Sprint(o.Labels) {
			return true
		}
	}
	return false
}

// addMeasure adds a number that no bound belongs to.
func (l *results) addMeasure(m scenario.Measure, since int) {
	name := m.Name
	for n := 2; l.hasMeasure(m.Name); n++ {
		m.Name = fmt.Sprintf("%s %d", name, n)
	}
	l.spans = append(l.spans, span{-1, len(l.out.Measures), since, l.nextStep()})
	l.out.Measures = append(l.out.Measures, m)
}

func (l *results) hasMeasure(name string) bool {
	return slices.ContainsFunc(l.out.Measures, func(m scenario.Measure) bool { return strings.EqualFold(m.Name, name) })
}
