package scenario

import (
	"maps"
	"slices"
	"strings"
)

// objective checks one objective: the steps have been gone through.
func (c *checker) objective(path string, o *Objective) {
	for _, group := range o.Pods {
		if !slices.Contains(c.groups, group) {
			c.at(path+".pods", "objective.pods: no create step makes group %q%s", clip(group), hint(group, c.groups))
		}
	}
	if o.SLO != "" {
		c.official(path, o)
		return
	}
	if o.SLI == "" {
		c.at(path, "objective: slo or sli is needed")
		return
	}
	if len(o.Pods) > 0 {
		c.at(path+".pods", "objective.pods: belongs to slo; an sli takes labels: {group: ...}")
	}
	sli, ok := findSLI(o.SLI)
	if !ok {
		c.word(path+".sli", "objective.sli", o.SLI)
		return
	}
	if !sli.has(o.Statistic) {
		c.oneOf(path+".statistic", "objective.statistic", o.Statistic, sli.Statistics)
	}
	c.bound(path, o)
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		c.sliLabel(path+".labels."+name, sli, name, o.Labels[name])
	}
}

// official checks an objective that stands for official SLOs.
func (c *checker) official(path string, o *Objective) {
	c.word(path+".slo", "objective.slo", o.SLO)
	if o.SLI != "" || o.Statistic != "" || len(o.Labels) > 0 || o.Max != nil || o.Min != nil {
		c.at(path, "objective: slo stands alone or with pods; its bounds are the official ones")
	}
}

func (c *checker) bound(path string, o *Objective) {
	switch {
	case (o.Max == nil) == (o.Min == nil):
		c.at(path, "objective: exactly one of max and min is needed")
	case o.Max != nil && *o.Max < 0:
		c.at(path+".max", "objective.max: %s is below 0", formatValue(*o.Max))
	case o.Min != nil && *o.Min < 0:
		c.at(path+".min", "objective.min: %s is below 0", formatValue(*o.Min))
	}
}

func (c *checker) sliLabel(path string, sli SLI, name, value string) {
	allowed, ok := sli.Labels[name]
	if !ok {
		known := slices.Sorted(maps.Keys(sli.Labels))
		c.at(path, "label %q not found in %s (it has %s)%s", clip(name), sli.Name, strings.Join(known, ", "), hint(name, known))
		return
	}
	switch name {
	case "group":
		allowed = c.groups
	case "step":
		allowed = slices.Sorted(maps.Keys(c.steps))
	}
	if allowed != nil {
		c.oneOf(path, "objective.labels."+name, value, allowed)
	}
}
