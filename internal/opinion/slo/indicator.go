package slo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

// indicators are those that are read from the metrics of a run.
type indicators struct{ f *run.Facts }

// judgeIndicator judges an indicator: one result for each value of the labels that it is
// split by.
func (i indicators) judgeIndicator(r Result, o *scenario.Objective, x sli.Indicator) []Result {
	r.Unit = x.UnitOf(r.Statistic)
	figures, trouble := i.readFigures(x, o.Labels, splitLabels(o, x))
	if i.judgeOfClients(&r, x, o.Labels, len(figures) > 0) {
		return []Result{r}
	}
	if len(figures) == 0 {
		if scrapes := i.countSilentScrapes(x, o.Labels); scrapes > 0 {
			holdAgainstThreshold(&r, exactEstimate(0, float64(scrapes)), false)
		} else {
			setUnmeasured(&r, trouble)
		}
		return []Result{r}
	}
	var out []Result
	for _, g := range figures {
		one := r
		one.Labels = maps.Clone(g.labels)
		maps.Copy(one.Labels, o.Labels)
		one.Warnings = slices.Clone(g.warnings)
		if target, cut := g.truncatedTarget(); cut {
			setUnmeasured(&one, cutOff(target, i.f.Cut[target]))
		} else if e, ok := g.estimateStatistic(r.Statistic); ok {
			holdAgainstThreshold(&one, e, g.isBucketed(r.Statistic))
		} else {
			unknownStatistic(&one)
		}
		out = append(out, one)
	}
	return out
}

// truncatedTarget names a target of the figure's series of which not all was read.
func (g *figure) truncatedTarget() (target string, cut bool) {
	for _, s := range g.series {
		if _, cut := g.f.Cut[s.Target]; cut {
			return s.Target, true
		}
	}
	return "", false
}

func cutOff(target string, served int) string {
	return fmt.Sprintf("%s served more than %d different series, and was read no more: a label of its metrics has too many values", target, served)
}

// splitLabels returns the labels for each value of which there is a result: what the
// objective says, or else the table; without those that have one value only.
func splitLabels(o *scenario.Objective, x sli.Indicator) []string {
	out := o.Per
	if len(out) == 0 {
		out = x.Per
	}
	return slices.DeleteFunc(slices.Clone(out), func(name string) bool { _, fixed := o.Labels[name]; return fixed })
}

// readFigures returns what was measured of an indicator within the run, for each
// value of some labels, in their order. When there is nothing, trouble says why.
func (i indicators) readFigures(x sli.Indicator, labels map[string]string, split []string) (out []figure, trouble string) {
	if x.Calls && server(i).hasSeveralServers() {
		return nil, manyServers
	}
	groups := map[string]*figure{}
	takes := x.Taker()
	if x.Kind == sli.Share {
		takes = func(func(string) string) bool { return true }
	}
	for _, s := range familySeries(i.f, x) {
		if !takes(s.Label) || !belongsTo(s, x, labels) {
			continue
		}
		key := ""
		for _, name := range split {
			key += labelOf(s, x, name) + "\x00"
		}
		g := groups[key]
		if g == nil {
			g = &figure{f: i.f, x: x, labels: map[string]string{}}
			for _, name := range split {
				if v := labelOf(s, x, name); v != "" {
					g.labels[name] = v
				}
			}
			groups[key] = g
		}
		g.series = append(g.series, s)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if groups[key].readIncrease() {
			out = append(out, *groups[key])
		}
	}
	return out, i.whyUnmeasured(x, labels, len(groups) > 0)
}

// countSilentScrapes returns how many complete scrapes within the run show that a counter has no
// series: it has not counted anything yet, since a counter with labels is served from
// its first rise on. It is 0 where the counter may have risen unseen.
func (i indicators) countSilentScrapes(x sli.Indicator, labels map[string]string) (scrapes int) {
	takes := x.Taker()
	if x.Kind != sli.Counter || x.Calls && server(i).hasSeveralServers() || i.findUnknownName(labels) != "" ||
		slices.ContainsFunc(familySeries(i.f, x), func(s *series.Series) bool { return takes(s.Label) && belongsTo(s, x, labels) }) {
		return 0
	}
	for _, target := range i.servingTargets(x, labels) {
		if _, cut := i.f.Cut[target]; cut {
			return 0
		}
		n := len(inRun(i.f, i.f.Series.Scrapes(target)))
		if n == 0 {
			return 0
		}
		scrapes = max(scrapes, n)
	}
	return scrapes
}

// servingTargets returns the targets that serve an indicator's family: the one that the labels
// name, the one whose family it is, or those that served a series of it in this run.
func (i indicators) servingTargets(x sli.Indicator, labels map[string]string) []string {
	switch target := labels[sli.Component]; {
	case labels[sli.Cluster] != "":
		return nil
	case target != "" && x.Scraped():
		return []string{target}
	case target == "" && x.Server() != "":
		return []string{x.Server()}
	}
	return slices.DeleteFunc(i.f.Series.Targets(x.Family), func(target string) bool { return target == run.Instrument || !x.Scraped() })
}

// whyUnmeasured says why nothing was measured.
func (i indicators) whyUnmeasured(x sli.Indicator, labels map[string]string, known bool) string {
	target, family := labels[sli.Component], x.Family
	if x.Calls {
		target, family = apiServer, "the API server's "+x.Family
	}
	switch {
	case known && x.Calls:
		return "no such call was made"
	case known:
		return "nothing was counted in that time"
	case target != "" && i.f.NotScraped[target] > 0:
		return fmt.Sprintf("nothing was read of %s of %s: it could not be scraped", x.Family, target)
	}
	return "nothing was read of " + family + cmp.Or(i.whichInstead(x, labels), i.findUnknownName(labels))
}

// findUnknownName returns the label of an objective that names what no series of the run is of: a
// queue, webhook, controller or level that counts has other series, even where it counted nothing.
func (i indicators) findUnknownName(labels map[string]string) string {
	families := i.f.Series.Names()
	for _, label := range []string{"name", "controller", "flow_schema", "priority_level", "profile", "resource"} {
		value, asked := labels[label]
		if asked && len(families) > 0 && !slices.ContainsFunc(families, func(family string) bool {
			return len(i.f.Series.Select("", family, map[string]string{label: value})) > 0
		}) {
			return fmt.Sprintf(" of %s %s, and nothing else of it either", label, value)
		}
	}
	return ""
}

// whichInstead names the values that a label has where the asked one is none of them; empty where
// every label has a series.
func (i indicators) whichInstead(x sli.Indicator, labels map[string]string) string {
	all := familySeries(i.f, x)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		var there []string
		for _, s := range all {
			if value := labelOf(s, x, name); value != "" && !slices.Contains(there, value) {
				there = append(there, value)
			}
		}
		if slices.Sort(there); len(there) > 0 && !slices.ContainsFunc(all, func(s *series.Series) bool { return belongsTo(s, x, map[string]string{name: labels[name]}) }) {
			return fmt.Sprintf(" of %s %s, but of %s", name, labels[name], strings.Join(there[:min(len(there), namedMeasures)], ", "))
		}
	}
	return ""
}

// familySeries returns all series that an indicator is made of. Those of a
// summary are known by their count, those of a histogram by any of its series.
func familySeries(f *run.Facts, x sli.Indicator) []*series.Series {
	switch x.Kind {
	case sli.Histogram:
		all := f.Series.Select("", x.Family+"_bucket", nil)
		for _, s := range f.Series.Select("", x.Family, nil) {
			if s.IsHistogram() {
				all = append(all, s)
			}
		}
		return all
	case sli.Summary:
		return f.Series.Select("", x.Family+"_count", nil)
	}
	return slices.DeleteFunc(f.Series.Select("", x.Family, nil), (*series.Series).IsHistogram)
}

// belongsTo reports whether a series belongs to an indicator with these labels.
// Windtunnel's own process is not the plane's, and members are not: they are asked
// for by name.
func belongsTo(s *series.Series, x sli.Indicator, labels map[string]string) bool {
	if _, named := labels[sli.Component]; !named && s.Target == run.Instrument && !strings.HasPrefix(x.Family, run.Instrument) {
		return false
	}
	_, ofOne := labels[sli.Component]
	if _, named := labels[sli.Cluster]; !named && !ofOne && s.Label(sli.Cluster) != "" {
		return false
	}
	for name, value := range labels {
		if is := labelOf(s, x, name); is != value && (name != sli.Component || !component.Is(is, value)) {
			return false
		}
	}
	return true
}

// labelOf returns a series' value of one of an indicator's labels.
func labelOf(s *series.Series, x sli.Indicator, name string) string {
	switch {
	case name == sli.Component:
		return s.Target
	case name == "resource" && x.Calls:
		if g := s.Label("group"); g != "" {
			return s.Label("resource") + "." + g
		}
	case name == "verb" && x.Calls:
		return run.ServedVerb(s.Label("verb"))
	}
	return s.Label(name)
}

// setMeasures sets what the table shows of each run that has data.
func (i indicators) setMeasures(m Measures) {
	for _, x := range sli.All() {
		if x.Kind == sli.Records || len(x.Shown) == 0 {
			continue
		}
		figures, _ := i.readFigures(x, nil, x.Per)
		for _, g := range figures {
			for _, statistic := range x.Shown {
				e, ok := g.estimateStatistic(statistic)
				if !ok || e.Samples == 0 {
					continue
				}
				m.set(joinKey(append([]string{IndicatorKey(x, statistic)}, g.labelValues()...)...), e.Value, x.UnitOf(statistic))
			}
		}
	}
}

// IndicatorKey is what the keys of an indicator's measures begin with: all of one
// that is not split, such as "apf_wait_p99_seconds".
func IndicatorKey(x sli.Indicator, statistic string) string {
	out := joinKey(x.Name, statistic)
	if word := unitWord(x.UnitOf(statistic)); word != "" {
		out = joinKey(out, word)
	}
	return out
}

// unitWord is a unit as it stands in a key; nothing for one that says nothing.
func unitWord(unit string) string {
	if unit == "ratio" {
		return ""
	}
	return strings.TrimPrefix(strings.ReplaceAll(unit, "/s", "_per_second"), "1_")
}
