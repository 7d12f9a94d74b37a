package clusterloader2

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/scenario"
)

// anyPod selects all pods; the language wants some selector.
const anyPod = "!windtunnel.dev/none"

// nameGroup names the pods that a measurement is about. It is called for all of
// them before anything is lowered, so that create steps know their group.
func (l *lowering) nameGroup(c call) {
	if c.method != "PodStartupLatency" && c.method != "SchedulingThroughput" || c.actionOf() != "start" {
		return
	}
	if c.has("fieldSelector") {
		return // noted when it is lowered
	}
	selector, namespace := c.readText("labelSelector", ""), c.readText("namespace", "")
	s, ok := selectorOf(selector)
	if !ok {
		c.addFault("labelSelector", "%q is not a label selector", selector)
		return
	}
	if l.groupFor(selector, namespace) != "" {
		return
	}
	name := labelValue(c.identifier)
	for n := 2; slices.ContainsFunc(l.out.Groups, func(g scenario.Group) bool { return g.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", labelValue(c.identifier), n)
	}
	text := s.String()
	if text == "" {
		text = anyPod
	}
	l.out.Groups = append(l.out.Groups, scenario.Group{Name: name, Namespace: namespace, Selector: text})
}

// groupFor returns the group with exactly this selector, or nothing.
func (l *lowering) groupFor(selector, namespace string) string {
	s, ok := selectorOf(selector)
	if !ok {
		return ""
	}
	text := s.String()
	if text == "" {
		text = anyPod
	}
	for _, g := range l.out.Groups {
		if g.Selector == text && g.Namespace == namespace {
			return g.Name
		}
	}
	return ""
}

// groupOf returns the first group that a cohort's pods belong to; empty, which
// leaves it to the step's name, when there is none.
func (l *lowering) groupOf(c *cohort) string {
	for _, i := range c.items {
		if i.sample.pods == 0 && !i.sample.everyNode {
			continue
		}
		for _, g := range l.out.Groups {
			s, ok := selectorOf(g.Selector)
			if ok && s.Matches(labels.Set(i.sample.podLabels)) && c.scope.mayHold(g.Namespace, l.out.Namespaces.Prefix) {
				return g.Name
			}
		}
	}
	return ""
}

// labelValue makes a label's value of an identifier.
func labelValue(text string) string {
	out := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '-'
	}, text)
	return strings.Trim(out[:min(len(out), 60)], "-_.")
}

// defaultStartup is ClusterLoader2's bound, and that of the official SLO.
const defaultStartup = 5 * time.Second

// byLabelsOnly says why pods of a field selector are not measured.
const byLabelsOnly = "pods can be selected by labels only, not by fieldSelector"

// percentile is a bound on one statistic.
type percentile struct {
	statistic string
	max       time.Duration
}

// percentileBounds returns the bounds of a measurement with a threshold for all
// percentiles and one for each. One that is not below that of the 99th
// percentile says nothing of its own.
func (c call) percentileBounds(fallback time.Duration) []percentile {
	all := c.readDuration("threshold", fallback)
	last := c.readDuration("perc99Threshold", all)
	var out []percentile
	for _, q := range []string{"50", "90"} {
		if at := c.readDuration("perc"+q+"Threshold", all); at < last {
			out = append(out, percentile{"p" + q, at})
		}
	}
	return append(out, percentile{"p99", last})
}

// podStartup bounds the time from created to running of the pods that the
// labels select. ClusterLoader2 measures it in the same way: both ends are
// when its own watch said so, and running is not ready.
func podStartup(l *lowering, c call, _ int) []scenario.Step {
	if c.actionOf() != gather {
		return nil
	}
	if c.has("fieldSelector") {
		l.addUnsupported(c.identifier, byLabelsOnly)
		return nil
	}
	group := l.groupFor(c.readText("labelSelector", ""), c.readText("namespace", ""))
	if group == "" {
		c.im.faults.addAt(c.where, "%s: %q is gathered and was not started", c.method, c.identifier)
		return nil
	}
	var bounds []scenario.Objective
	for _, b := range c.percentileBounds(defaultStartup) {
		bounds = append(bounds, scenario.Objective{
			Name: c.identifier, SLI: "pod-startup", Statistic: b.statistic,
			Labels: map[string]string{"group": group}, Max: new(b.max.Seconds()),
		})
	}
	for _, o := range bounds {
		if l.objectiveClashes(o) {
			c.addNote("%q is gathered more than once; it is judged over the whole run", c.identifier)
			return nil
		}
		l.addObjective(o, 0)
	}
	return nil
}

// schedulingThroughput bounds the most pods that were bound in an interval.
func schedulingThroughput(l *lowering, c call, _ int) []scenario.Step {
	if c.actionOf() != gather {
		return nil
	}
	minRate := c.readNumber("threshold", 0)
	if minRate <= 0 || !c.readTruth("enableViolations", true) {
		return nil // it is measured in every run
	}
	group := l.groupFor(c.readText("labelSelector", ""), c.readText("namespace", ""))
	if c.has("fieldSelector") || group == "" {
		l.addUnsupported(c.identifier, byLabelsOnly)
		return nil
	}
	window := c.readDuration("measurmentInterval", 5*time.Second) // spelt like this
	if window <= 0 {
		c.addFault("measurmentInterval", "%s is not above 0s", window)
		return nil
	}
	l.addObjective(scenario.Objective{
		Name: c.identifier, SLI: "pods-bound-rate", Statistic: "max", Min: new(minRate),
		Labels: map[string]string{"group": group, "window": window.String()},
	}, 0)
	return nil
}
