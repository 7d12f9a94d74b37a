package slo

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// LifecycleSummary is how long the objects of one lifecycle took from one phase to
// another.
type LifecycleSummary struct {
	Lifecycle string               `json:"lifecycle"`
	Group     string               `json:"group,omitempty"` // empty: all groups together
	From      string               `json:"from"`
	To        string               `json:"to"`
	Samples   int                  `json:"samples"`            // objects that reached from
	Censored  int                  `json:"censored,omitempty"` // of these, interval- or right-censored: their watch was interrupted or late, or they are not there yet
	Unit      string               `json:"unit"`
	Values    []LifecycleStatistic `json:"values"`
}

// LifecycleStatistic is one statistic of a summary. Value is nil where nothing bounds it.
type LifecycleStatistic struct {
	Statistic string      `json:"statistic"` // p50, p90, p95, p99, max, mean
	Value     *float64    `json:"value"`
	Interval  *[2]float64 `json:"interval"` // 95 %; nil where there are too few samples, and of the largest value
}

// manyGroups is beyond how many groups of a lifecycle they are not summed up one by
// one: a label may have a value for each object.
const manyGroups = 50

// judgeLifecycle judges the time between two phases of the objects of a declared
// lifecycle.
func (c records) judgeLifecycle(r *Result, o *scenario.Objective) {
	from, to, _ := strings.Cut(o.Labels["phase"], "..")
	name := o.Labels["lifecycle"]
	if name == scenario.PodLifecycle {
		c.holdDurations(r, c.pods.collectDurations(r, o.Labels, groupsOf(o.Labels), from, to))
		return
	}
	groups := groupsOf(o.Labels)
	all := inCluster(c.f.Named(name, groups...), o.Labels)
	d := c.f.Took(all, from, to)
	if n := c.countUnseen(name, o.Labels, all); n > 0 && groups == nil {
		for range n {
			d.AddBetween(0, stats.Forever)
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s that the load created %s never seen", unit.Count(n, "objects"), unit.Verb(n, "was", "were")))
	}
	if n := outOfOrder(all, from, to); n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d objects were seen %s before %s; they count as 0", n, d.Len(), to, from))
	}
	c.holdDurations(r, d)
}

// countUnseen is how many objects of a lifecycle's resource the load created with success,
// where it is observed and labels ask for it, and no watch showed; 0 where the
// lifecycle is only of some of them.
func (c records) countUnseen(name string, labels map[string]string, all []*run.Lifecycles) int {
	if len(all) == 0 {
		return 0
	}
	in := map[string]bool{"": true}
	for _, l := range c.sc.Observed() {
		if l.Name != name {
			continue
		}
		if l.Selector != "" || l.Namespace != "" {
			return 0
		}
		if l.Cluster != "" {
			clear(in)
			names, _ := c.sc.MembersOf(l.Cluster) // the scenario was checked
			for _, member := range names {
				in[member] = true
			}
		}
	}
	created, seen := 0, 0
	for _, l := range all {
		seen += l.Len()
	}
	only, one := labels["cluster"]
	for _, calls := range c.f.Calls {
		if calls.Source == run.Load && calls.Verb == "create" && calls.Subresource == "" && calls.Resource == all[0].Resource &&
			in[calls.Cluster] && (!one || calls.Cluster == only) {
			created += calls.Outcomes[record.OK]
		}
	}
	return max(0, created-seen)
}

// outOfOrder is how many objects were seen in two phases in the other order, as
// happens where each is seen on a watch of its own.
func outOfOrder(all []*run.Lifecycles, from, to string) (n int) {
	for _, l := range all {
		for row := range l.Len() {
			a, one := l.PhaseTime(row, from)
			b, other := l.PhaseTime(row, to)
			if one && other && b.Last < a.First {
				n++
			}
		}
	}
	return n
}

// lifecycles are those that a scenario declares.
type lifecycles struct {
	sc *scenario.Scenario
	f  *run.Facts
}

// summarizeAll sums them up: from created to each phase, from
// each phase to the next, and from deleting to deleted; all groups together,
// and each of them where there are several.
func (l lifecycles) summarizeAll() []LifecycleSummary {
	var out []LifecycleSummary
	for _, declared := range l.sc.Observed() {
		all := l.f.Named(declared.Name)
		out = append(out, l.summarizeGroup(declared, "", all)...)
		if len(all) < 2 || len(all) > manyGroups {
			continue
		}
		for _, group := range all {
			if group.Group != "" {
				out = append(out, l.summarizeGroup(declared, group.Group, []*run.Lifecycles{group})...)
			}
		}
	}
	return out
}

func (l lifecycles) summarizeGroup(declared scenario.Lifecycle, group string, all []*run.Lifecycles) []LifecycleSummary {
	var out []LifecycleSummary
	for _, s := range transitionsOf(declared) {
		d := l.f.Took(all, s[0], s[1])
		if d.Len() > 0 && countReached(all, s[1]) > 0 {
			out = append(out, summarizeDurations(LifecycleSummary{Lifecycle: declared.Name, Group: group, From: s[0], To: s[1]}, d))
		}
	}
	return out
}

// transitionsOf are the transitions of a lifecycle that are summed up.
func transitionsOf(declared scenario.Lifecycle) [][2]string {
	phases := declared.AllPhases()
	last := len(phases) - 2 // deleting and deleted stand by themselves
	var out [][2]string
	for _, to := range phases[1:last] {
		out = append(out, [2]string{record.PhaseCreated, to})
	}
	for i := 2; i < last; i++ {
		out = append(out, [2]string{phases[i-1], phases[i]})
	}
	return append(out, [2]string{record.PhaseDeleting, record.PhaseDeleted})
}

func summarizeDurations(s LifecycleSummary, d *stats.Durations) LifecycleSummary {
	s.Samples, s.Censored, s.Unit = d.Len(), d.Censored(), "seconds"
	for _, q := range []float64{0.5, 0.9, 0.95, 0.99} {
		s.Values = append(s.Values, lifecycleStatistic(stats.Name(q), d.Quantile(q)))
	}
	s.Values = append(s.Values, lifecycleStatistic("max", d.Max()), lifecycleStatistic("mean", d.Mean()))
	return s
}

func lifecycleStatistic(statistic string, e stats.Estimate) LifecycleStatistic {
	f := LifecycleStatistic{Statistic: statistic}
	if isFinite(e.High) {
		v := roundFigure(e.Value)
		f.Value = &v
	}
	if isFinite(e.Interval[0]) && isFinite(e.Interval[1]) {
		f.Interval = &[2]float64{roundFigure(e.Interval[0]), roundFigure(e.Interval[1])}
	}
	return f
}

// setMeasures names the summaries' figures, such as
// lifecycle_vmi_created_to_running_p99_seconds, and how many objects reached each
// phase: lifecycles_vmi_running.
func (l lifecycles) setMeasures(m Measures, summaries []LifecycleSummary) {
	for _, s := range summaries {
		for _, f := range s.Values {
			if f.Value != nil {
				m.set(joinKey("lifecycle", s.Lifecycle, s.From, "to", s.To, f.Statistic, "seconds", s.Group), *f.Value, "seconds")
			}
		}
	}
	for _, declared := range l.sc.Observed() {
		all := l.f.Named(declared.Name)
		for _, phase := range declared.AllPhases() {
			if len(all) > 0 {
				m.set(joinKey("lifecycles", declared.Name, phase), float64(countReached(all, phase)), "objects")
			}
		}
	}
}
