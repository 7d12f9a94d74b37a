package slo

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// LifeSummary is how long the objects of one life took from one phase to
// another.
type LifeSummary struct {
	Life    string       `json:"life"`
	Group   string       `json:"group,omitempty"` // empty: all groups together
	From    string       `json:"from"`
	To      string       `json:"to"`
	Samples int          `json:"samples"`         // objects that reached from
	Vague   int          `json:"vague,omitempty"` // of these, those whose time is known only within bounds: not there yet, or their watch was torn or late
	Unit    string       `json:"unit"`
	Values  []LifeFigure `json:"values"`
}

// LifeFigure is one statistic of a summary. Value is nil where nothing bounds it.
type LifeFigure struct {
	Statistic string      `json:"statistic"` // p50, p90, p95, p99, max, mean
	Value     *float64    `json:"value"`
	Interval  *[2]float64 `json:"interval"` // 95 %; nil where there are too few samples, and of the largest value
}

// manyGroups is beyond how many groups of a life they are not summed up one by
// one: a label may have a value for each object.
const manyGroups = 50

// life judges the time between two phases of the objects of a declared life.
func (c records) life(r *Result, o *scenario.Objective) {
	from, to, _ := strings.Cut(o.Labels["phase"], "..")
	name := o.Labels["lifecycle"]
	if name == scenario.PodLifecycle {
		var groups []string
		if g := o.Labels["group"]; g != "" {
			groups = []string{g}
		}
		c.holdDurations(r, c.pods.phases(r, groups, from, to))
		return
	}
	var groups []string
	if g := o.Labels["group"]; g != "" {
		groups = []string{g}
	}
	lives := c.f.Named(name, groups...)
	d := c.f.Took(lives, from, to)
	if n := c.unseen(name, lives); n > 0 && groups == nil {
		for range n {
			d.AddBetween(0, stats.Forever)
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d objects that the load created were never seen", n))
	}
	if n := swapped(lives, from, to); n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d objects were seen %s before %s; they count as 0", n, d.Len(), to, from))
	}
	c.holdDurations(r, d)
}

// unseen is how many objects of a life's resource the load created with success
// and no watch showed; 0 where the life is only of some of them.
func (c records) unseen(life string, lives []*run.Lifecycles) int {
	for _, l := range c.sc.Observed() {
		if l.Name == life && (l.Selector != "" || l.Namespace != "") || len(lives) == 0 {
			return 0
		}
	}
	created, seen := 0, 0
	for _, l := range lives {
		seen += l.Len()
	}
	for _, calls := range c.f.Calls {
		if calls.Source == run.Load && calls.Verb == "create" && calls.Subresource == "" && calls.Resource == lives[0].Resource {
			created += calls.Outcomes[record.OK]
		}
	}
	return max(0, created-seen)
}

// swapped is how many objects were seen in two phases in the other order, as
// happens where each is seen on a watch of its own.
func swapped(lives []*run.Lifecycles, from, to string) (n int) {
	for _, l := range lives {
		for row := range l.Len() {
			a, one := l.Moment(row, from)
			b, other := l.Moment(row, to)
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

// summaries sums them up: from created to each phase, from
// each phase to the next, and from deleting to deleted; all groups together,
// and each of them where there are several.
func (l lifecycles) summaries() []LifeSummary {
	var out []LifeSummary
	for _, life := range l.sc.Observed() {
		all := l.f.Named(life.Name)
		out = append(out, l.summary(life, "", all)...)
		if len(all) < 2 || len(all) > manyGroups {
			continue
		}
		for _, group := range all {
			if group.Group != "" {
				out = append(out, l.summary(life, group.Group, []*run.Lifecycles{group})...)
			}
		}
	}
	return out
}

func (l lifecycles) summary(life scenario.Lifecycle, group string, lives []*run.Lifecycles) []LifeSummary {
	var out []LifeSummary
	for _, s := range stretchesOf(life) {
		d := l.f.Took(lives, s[0], s[1])
		if d.Len() > 0 && reached(lives, s[1]) > 0 {
			out = append(out, summarise(LifeSummary{Life: life.Name, Group: group, From: s[0], To: s[1]}, d))
		}
	}
	return out
}

// stretchesOf are the parts of a life that are summed up.
func stretchesOf(life scenario.Lifecycle) [][2]string {
	phases := life.AllPhases()
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

func summarise(s LifeSummary, d *stats.Durations) LifeSummary {
	s.Samples, s.Vague, s.Unit = d.Len(), d.Censored(), "seconds"
	for _, q := range []float64{0.5, 0.9, 0.95, 0.99} {
		s.Values = append(s.Values, lifeFigure(stats.Name(q), d.Quantile(q)))
	}
	s.Values = append(s.Values, lifeFigure("max", d.Max()), lifeFigure("mean", d.Mean()))
	return s
}

func lifeFigure(statistic string, e stats.Estimate) LifeFigure {
	f := LifeFigure{Statistic: statistic}
	if finite(e.High) {
		v := rounded(e.Value)
		f.Value = &v
	}
	if finite(e.Interval[0]) && finite(e.Interval[1]) {
		f.Interval = &[2]float64{rounded(e.Interval[0]), rounded(e.Interval[1])}
	}
	return f
}

// measures names the summaries' figures, such as
// life_vmi_created_to_running_p99_seconds, and how many objects reached each
// phase: lives_vmi_running.
func (l lifecycles) measures(m measures, summaries []LifeSummary) {
	for _, s := range summaries {
		for _, f := range s.Values {
			if f.Value != nil {
				m.set(key("life", s.Life, s.From, "to", s.To, f.Statistic, "seconds", s.Group), *f.Value, "seconds")
			}
		}
	}
	for _, life := range l.sc.Observed() {
		lives := l.f.Named(life.Name)
		for _, phase := range life.AllPhases() {
			if len(lives) > 0 {
				m.set(key("lives", life.Name, phase), float64(reached(lives, phase)), "objects")
			}
		}
	}
}
