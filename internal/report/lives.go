package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Numbers of phases: those of every life, and behind them those of pods. A life
// that the scenario declares has its own in their place, as they are seen.
const (
	created = iota
	deleting
	deleted
	unknown // its watch was torn: phases from here on have no true times
	bound
	podRunning
	ready
)

// never is the time of a phase that was not seen.
const never = clock.Time(math.MinInt64)

// allLives are the objects whose phases were recorded.
type allLives struct {
	index    []place // by ObjectID
	pods     *lives
	declared []*lives // those that the scenario declares, in the order of their first object
}

// place says where an object's phases are kept; nowhere without lives.
type place struct {
	lives *lives
	row   int32
}

// lives holds the phases of the objects of one life.
type lives struct {
	name   string   // of the scenario's lives; empty: the pods that every run observes
	phases []string // by number
	all    []life
	groups map[string]int32
	names  []string // of groups, in the order of their first object
	within map[vague]time.Duration
}

// vague is a phase that may have been reached before its time: nobody looked.
type vague struct {
	life  int32
	phase int
}

type life struct {
	group int32
	at    []clock.Time // by phase; may be shorter
}

func newAllLives() *allLives {
	return &allLives{pods: newLives("", record.PhaseBound, record.PhaseRunning, record.PhaseReady)}
}

func newLives(name string, own ...string) *lives {
	return &lives{
		name: name, groups: map[string]int32{}, within: map[vague]time.Duration{},
		phases: append([]string{record.PhaseCreated, record.PhaseDeleting, record.PhaseDeleted, record.PhaseUnknown}, own...),
	}
}

func (a *allLives) visit(s *record.Stream, p record.Phase) {
	for len(a.index) < len(s.Objects) {
		a.index = append(a.index, a.place(s.Objects[len(a.index)]))
	}
	if at := a.index[p.Object]; at.lives != nil {
		at.lives.visit(at.row, p)
	}
}

// place makes room for an object.
func (a *allLives) place(o record.Object) place {
	l := a.pods
	switch {
	case o.Life != "": // what a scenario declares is observed besides
		i := slices.IndexFunc(a.declared, func(l *lives) bool { return l.name == o.Life })
		if i < 0 {
			i = len(a.declared)
			a.declared = append(a.declared, newLives(o.Life))
		}
		l = a.declared[i]
	case o.Resource != "pods":
		return place{}
	}
	return place{l, l.add(o.Group)}
}

func (l *lives) count() int { return len(l.all) }

func (l *lives) visit(row int32, p record.Phase) {
	phase := l.number(p.Phase)
	if phase < 0 || phase == unknown && p.Within > 0 {
		return // the phases that were reached meanwhile say so themselves
	}
	v := &l.all[row]
	if len(v.at) <= phase {
		v.at = append(v.at, slices.Repeat([]clock.Time{never}, len(l.phases)-len(v.at))...)
	}
	// A watch that was re-listed tells a phase again: the first time counts.
	if at := &v.at[phase]; *at == never {
		*at = p.At
		if p.Within > 0 {
			l.within[vague{row, phase}] = p.Within
		}
	}
}

func (l *lives) add(group string) int32 {
	g, ok := l.groups[group]
	if !ok {
		g = int32(len(l.names))
		l.groups[group] = g
		l.names = append(l.names, group)
	}
	l.all = append(l.all, life{group: g})
	return int32(len(l.all) - 1)
}

// number is the number of a phase, -1 for one that pods do not have.
func (l *lives) number(name string) int {
	i := slices.Index(l.phases, name)
	if i < 0 && l.name != "" {
		i = len(l.phases)
		l.phases = append(l.phases, name)
	}
	return i
}

// when is the time of a phase, never where it was not seen.
func (v *life) when(phase int) clock.Time {
	if phase < len(v.at) {
		return v.at[phase]
	}
	return never
}

// stretch is a part of a life whose duration is shown.
type stretch struct {
	name     string
	from, to int
}

func podStretches() []stretch {
	return []stretch{
		{"created to running", created, podRunning},
		{"created to bound", created, bound},
		{"bound to running", bound, podRunning},
		{"deleting to deleted", deleting, deleted},
	}
}

// spreads returns the distribution of every stretch for every group that has
// one, the largest group first.
func (t *tally) spreads(l *lives, parts []stretch) []Spread {
	var out []Spread
	for _, s := range parts {
		durations := make([]stats.Durations, len(l.names))
		for i := range l.all {
			v := &l.all[i]
			from := v.when(s.from)
			switch {
			case from == never || from < t.begin:
			case l.unsure(int32(i), s):
				lo, hi := l.between(int32(i), s)
				durations[v.group].AddBetween(lo, hi)
			default:
				v.measure(&durations[v.group], s, t.end)
			}
		}
		first := len(out)
		for g, name := range l.names {
			if durations[g].Len() > 0 {
				out = append(out, newSpread(name, s.name, &durations[g]))
			}
		}
		slices.SortStableFunc(out[first:], func(a, b Spread) int {
			return cmp.Or(cmp.Compare(b.N+b.Open, a.N+a.Open), cmp.Compare(a.Group, b.Group))
		})
	}
	return out
}

// unsure says whether a stretch that was seen to end has an end that may have
// been reached before its time.
func (l *lives) unsure(i int32, s stretch) bool {
	return len(l.within) > 0 && l.all[i].when(s.to) != never && (l.within[vague{i, s.from}] > 0 || l.within[vague{i, s.to}] > 0)
}

// between bounds how long such a stretch took.
func (l *lives) between(i int32, s stretch) (lo, hi time.Duration) {
	took := max(l.all[i].when(s.to).Sub(l.all[i].when(s.from)), 0)
	before, after := l.within[vague{i, s.from}], l.within[vague{i, s.to}]
	if hi = took + before; before == record.Ever {
		hi = stats.Forever
	}
	return max(took-after, 0), hi
}

// measure adds how long the life was in a stretch. One that was not seen to end
// lasted at least until the object was deleted or the run ended.
func (v *life) measure(d *stats.Durations, s stretch, end clock.Time) {
	from, to := v.when(s.from), v.when(s.to)
	if to != never && to <= end {
		if torn := v.when(unknown); torn != never && torn <= to {
			d.AddBetween(0, max(to.Sub(from), 0))
			return
		}
		d.Add(max(to.Sub(from), 0))
		return
	}
	d.AddBetween(max(v.leaves(s.from, end).Sub(from), 0), stats.Forever)
}

// leaves is when an object in some phase began to go, at most end: when its
// deletion was asked for, unless that is the phase, or done.
func (v *life) leaves(from int, end clock.Time) clock.Time {
	for _, p := range []int{deleting, deleted} {
		if at := v.when(p); at != never && p != from {
			end = min(end, at)
		}
	}
	return end
}

// podCharts draws how many pods there were, and how many per second came and went.
func (t *tally) podCharts() []TimeChart {
	l, g := t.lives.pods, t.base
	if len(l.all) == 0 {
		return nil
	}
	change, reached := make([][]float64, len(l.phases)), make([][]float64, len(l.phases))
	for p := range l.phases {
		change[p], reached[p] = make([]float64, g.n), make([]float64, g.n)
	}
	for _, v := range l.all {
		for p, at := range v.at {
			if at == never {
				continue
			}
			reached[p][g.bin(at)]++
			change[p][g.bin(at)]++
			if gone := v.when(deleted); gone != never && p != deleting && p != deleted && p != unknown {
				change[p][max(g.bin(gone), g.bin(at))]--
			}
		}
	}
	number := []namedValues{{"exist", running(change[created])}, {"bound to a node", running(change[bound])}, {"running", running(change[podRunning])}}
	pace := []namedValues{{"created", reached[created]}, {"running", reached[podRunning]}, {"deleted", reached[deleted]}}
	window := g
	for i := range pace {
		window, pace[i].values = perSecond(g, pace[i].values, time.Second)
	}
	return []TimeChart{
		drawn(g, TimeChart{ID: "pods", Title: "Pods", Unit: "pods", Shape: shapeLevel}, number),
		drawn(window, TimeChart{ID: "pod-rate", Title: "Pods per second", Unit: "pods/s", Shape: shapeRate}, pace),
	}
}

type namedValues struct {
	name   string
	values []float64
}

// drawn fills a chart with lines condensed from values on one grid.
func drawn(g grid, c TimeChart, lines []namedValues) TimeChart {
	shown := g
	for _, v := range lines {
		var line Line
		line, shown = condense(v.name, g, v.values, chartBins)
		c.Lines = append(c.Lines, line)
	}
	c.From, c.Width = Num(shown.from.Seconds()), Num(shown.width.Seconds())
	return c
}
