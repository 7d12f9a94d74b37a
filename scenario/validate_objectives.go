package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// objectiveChecker checks what is judged and what is measured.
type objectiveChecker struct{ *checker }

// checkObjective checks one objective: the steps have been gone through.
func (c objectiveChecker) checkObjective(path string, o *Objective) {
	for _, group := range o.Pods {
		if groups := c.allGroups(); !slices.Contains(groups, group) {
			c.reportAt(path+".pods", "objective.pods: no create step makes group %q%s", clipText(group), suggestName(group, groups))
		}
	}
	if _, ok := c.steps[o.Step]; o.Step != "" && !ok {
		c.reportAt(path+".step", "objective.step: no step is called %q%s", clipText(o.Step), c.whyMissing("step", o.Step, slices.Sorted(maps.Keys(c.steps))))
	}
	if o.Measure != "" {
		c.checkOfMeasure(path, o)
		return
	}
	if o.SLO != "" {
		c.checkOfficial(path, o)
		return
	}
	switch {
	case o.Unsupported != "":
		if o.Name == "" {
			c.reportAt(path, "objective.unsupported: a name is needed")
		}
		return
	case o.Query != "":
		c.checkQuery(path, o)
		return
	case o.Since != "" || o.Until != "" || o.Unit != "":
		c.reportAt(path, "objective: since, until and unit belong to query")
	}
	if o.SLI == "" {
		c.reportAt(path, "objective: slo, sli or query is needed")
		return
	}
	if len(o.Pods) > 0 {
		c.reportAt(path+".pods", "objective.pods: belongs to slo; an sli takes labels: {group: ...}")
	}
	sli, ok := findSLI(o.SLI)
	if !ok {
		c.checkWord(path+".sli", "objective.sli", o.SLI)
		return
	}
	if !sli.hasStatistic(o.Statistic) {
		c.checkOneOf(path+".statistic", "objective.statistic", o.Statistic, sli.Statistics)
	}
	c.checkBound(path, o)
	if _, byStep := sli.Labels["step"]; o.Step != "" && (ofRecords(sli.Name) && !byStep || o.Labels["step"] != "") {
		c.reportAt(path+".step", "objective.step: %s", map[bool]string{true: "stands beside the label step", false: sli.Name + " is not of a step; its label group says whose lifecycles it is about"}[o.Labels["step"] != ""])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		c.sliLabel(path+".labels."+name, sli, name, o.Labels[name])
	}
	for i, name := range o.Per {
		at := fmt.Sprintf("%s.per[%d]", path, i)
		if _, ok := sli.Labels[name]; !ok || slices.Contains([]string{"lifecycle", "phase", "window", "state"}, name) {
			c.reportAt(at, "objective.per: %s is not split by %q", sli.Name, clipText(name))
		} else if _, fixed := o.Labels[name]; fixed {
			c.reportAt(at, "objective.per: %q has one value, that of labels", clipText(name))
		}
	}
	if _, turns := sli.Labels["than"]; turns && o.Labels["path"] == "" {
		c.reportAt(path+".labels", "objective.labels: path is needed with sli: %s", sli.Name)
	}
	if o.SLI == "lifecycle" {
		c.lifecycleLabels(path+".labels", o.Labels)
	}
}

// checkOfMeasure checks an objective on one of measures.
func (c objectiveChecker) checkOfMeasure(path string, o *Objective) {
	var known []string
	for _, m := range c.s.Measures {
		if m.Query != "" {
			known = append(known, m.Name)
		}
	}
	if !slices.Contains(known, o.Measure) {
		c.reportAt(path+".measure", "objective.measure: no measure with a query is called %q%s", clipText(o.Measure), c.whyMissing("measure", o.Measure, known))
	}
	for _, field := range []string{"slo", "sli", "query", "unsupported", "unit", "since", "until", "step", "statistic", "labels", "per", "pods"} {
		if c.isGiven(path + "." + field) {
			c.reportAt(path+"."+field, "objective: measure stands in place of %s", field)
		}
	}
	c.checkBound(path, o)
}

// checkQuery checks an objective that asks the run's series; package slo parses the
// query itself.
func (c objectiveChecker) checkQuery(path string, o *Objective) {
	if o.Name == "" {
		c.reportAt(path, "objective.name: is needed with query")
	}
	if o.SLI != "" || o.Statistic != "" || len(o.Labels)+len(o.Per)+len(o.Pods) > 0 {
		c.reportAt(path, "objective: query stands in place of sli; sli, statistic, labels, per and pods do not belong to it")
	}
	c.checkBound(path, o)
	if o.Step != "" && o.Since+o.Until != "" {
		c.reportAt(path+".step", "objective.step: stands in place of since and until")
	}
	c.checkSpan(path, "objective", o.Since, o.Until)
}

// checkMeasure checks what is measured and not judged.
func (c objectiveChecker) checkMeasure(path string, m Measure) {
	if m.Name == "" {
		c.reportAt(path, "measure.name: a name is needed")
	}
	if m.Query == "" && m.Unit != "" {
		c.reportAt(path+".unit", "measure.unit: belongs to query; a time is in seconds")
	}
	if m.Better != "" {
		c.checkWord(path+".better", "measure.better", m.Better)
	}
	c.checkSpan(path, "measure", m.Since, m.Until)
}

// checkSpan checks the steps that bound a stretch of the run.
func (c objectiveChecker) checkSpan(path, what, since, until string) {
	for _, f := range []struct{ name, step string }{{"since", since}, {"until", until}} {
		if _, ok := c.steps[f.step]; f.step != "" && !ok {
			c.reportAt(path+"."+f.name, "%s.%s: no step is called %q%s", what, f.name, clipText(f.step), c.whyMissing("step", f.step, slices.Sorted(maps.Keys(c.steps))))
		}
	}
	if from, to := c.orderOf(since), c.orderOf(until); to >= 0 && from > to {
		c.reportAt(path+".since", "%s.since: step %q begins after the end of step %q, which is until", what, since, until)
	}
}

// orderOf returns the position of a step among those that follow one another; a step of a parallel
// has that of the parallel. It is -1 for no step.
func (c objectiveChecker) orderOf(step string) int {
	order := -1
	if _, err := fmt.Sscanf(c.steps[step], "steps[%d]", &order); err != nil {
		return -1
	}
	return order
}

// checkOfficial checks an objective that stands for official SLOs.
func (c objectiveChecker) checkOfficial(path string, o *Objective) {
	c.checkWord(path+".slo", "objective.slo", o.SLO)
	if o.SLI+o.Step != "" || o.Statistic != "" || len(o.Labels)+len(o.Per) > 0 || o.Max != nil || o.Min != nil || o.Query != "" {
		c.reportAt(path, "objective: slo stands alone or with pods; its bounds are the official ones")
	}
}

func (c objectiveChecker) checkBound(path string, o *Objective) {
	for _, bound := range []struct {
		name string
		at   *float64
	}{{"max", o.Max}, {"min", o.Min}} {
		if of, _ := o.unitOfBound(); bound.at != nil && *bound.at > 1 && of == "ratio" && slices.Contains(shares(), o.SLI) {
			c.reportAt(path+"."+bound.name, "objective.%s: %s of %s is never above 1, which is 100%%: write %s%% or %s", bound.name,
				o.Statistic, o.SLI, formatValue(*bound.at), formatValue(*bound.at/100))
		}
	}
	switch {
	case (o.Max == nil) == (o.Min == nil):
		c.reportAt(path, "objective: exactly one of max and min is needed")
	case o.Max != nil:
		c.checkNotNegativeNumber(path+".max", "objective.max", *o.Max)
	default:
		c.checkNotNegativeNumber(path+".min", "objective.min", *o.Min)
	}
}

// shares are the indicators that are a part of a whole, and so never above 1.
func shares() []string { return []string{"call-success", "api-availability", "network-loss"} }

// minWindow is the shortest time in which pods are counted: shorter ones would all
// hold one pod or none, and be without number.
const minWindow = time.Millisecond

func (c objectiveChecker) sliLabel(path string, sli SLI, name, value string) {
	allowed, ok := sli.Labels[name]
	if !ok {
		known := slices.Sorted(maps.Keys(sli.Labels))
		c.reportAt(path, "label %q not found in %s (it has %s)%s", clipText(name), sli.Name, strings.Join(known, ", "), suggestName(name, known))
		return
	}
	switch {
	case sli.Name == "lifecycle": // its labels are checked together
	case name == "group":
		allowed = c.allGroups()
	case name == "step":
		allowed = slices.Sorted(maps.Keys(c.steps))
	case name == "path" || name == "than":
		allowed = c.networkPaths()
	case name == "window":
		if d, err := time.ParseDuration(value); err != nil || d < minWindow {
			c.reportAt(path, "objective.labels.window: %q is not a time of %s or more, such as 5s", clipText(value), minWindow)
		}
	}
	if allowed != nil {
		c.checkOneOf(path, "objective.labels."+name, value, allowed)
	}
}

// networkPaths are the paths that steps measure in turns.
func (c objectiveChecker) networkPaths() []string {
	out := []string{}
	for step := range c.s.AllSteps() {
		if n := step.Network; n != nil && n.Path != "" {
			out = append(out, n.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lifecycleLabels checks which lifecycle an objective is about, and which part of it.
func (c objectiveChecker) lifecycleLabels(path string, labels map[string]string) {
	phases := c.s.PhasesOf(labels["lifecycle"])
	switch lifecycle := labels["lifecycle"]; {
	case lifecycle == "":
		c.reportAt(path, "objective.labels: lifecycle is needed with sli: lifecycle")
		return
	case phases == nil && slices.Contains(fieldWords("lifecycle.use"), lifecycle):
		c.reportAt(path+".lifecycle", "objective.labels.lifecycle: no lifecycle is called %q: say `- use: %s` in lifecycles", clipText(lifecycle), lifecycle)
		return
	case phases == nil:
		c.reportAt(path+".lifecycle", "objective.labels.lifecycle: no lifecycle is called %q%s", clipText(lifecycle), suggestName(lifecycle, c.s.lifecycleNames()))
		return
	}
	from, to, ok := strings.Cut(labels["phase"], "..")
	if !ok || from == to {
		c.reportAt(path+".phase", "objective.labels.phase: %q is not FROM..TO with two of %s", clipText(labels["phase"]), strings.Join(phases, ", "))
		return
	}
	for _, name := range []string{from, to} {
		if !slices.Contains(phases, name) {
			c.checkOneOf(path+".phase", "objective.labels.phase", name, phases)
		}
	}
	if group := labels["group"]; group != "" && labels["lifecycle"] == PodLifecycle {
		c.checkOneOf(path+".group", "objective.labels.group", group, c.allGroups())
	}
}
