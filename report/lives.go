package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/stats"
)

// The phases of a pod's life that are shown.
const (
	created = iota
	bound
	podRunning
	ready
	deleting
	deleted
	unknown // its watch was torn: phases from here on have no true times
	phases
)

// never is the time of a phase that was not seen.
const never = clock.Time(math.MinInt64)

// lives holds the pods' phases.
type lives struct {
	index  []int32 // by ObjectID: place in all, -1 for what is no pod
	all    []life
	groups map[string]int32
	names  []string // of groups, in the order of their first pod
	within map[vague]time.Duration
}

// vague is a phase that may have been reached before its time: nobody looked.
type vague struct {
	life  int32
	phase int
}

type life struct {
	group int32
	at    [phases]clock.Time
}

func newLives() *lives { return &lives{groups: map[string]int32{}, within: map[vague]time.Duration{}} }

func (l *lives) count() int { return len(l.all) }

func (l *lives) visit(s *record.Stream, p record.Phase) {
	for len(l.index) < len(s.Objects) {
		l.index = append(l.index, l.add(s.Objects[len(l.index)]))
	}
	i, phase := l.index[p.Object], phaseNumber(p.Phase)
	if i < 0 || phase < 0 || phase == unknown && p.Within > 0 {
		return // the phases that were reached meanwhile say so themselves
	}
	// A watch that was re-listed tells a phase again: the first time counts.
	if at := &l.all[i].at[phase]; *at == never {
		*at = p.At
		if p.Within > 0 {
			l.within[vague{i, phase}] = p.Within
		}
	}
}

func (l *lives) add(o record.Object) int32 {
	if o.Resource != "pods" || o.Life != "" { // what a scenario declared is observed besides
		return -1
	}
	g, ok := l.groups[o.Group]
	if !ok {
		g = int32(len(l.names))
		l.groups[o.Group] = g
		l.names = append(l.names, o.Group)
	}
	v := life{group: g}
	for p := range v.at {
		v.at[p] = never
	}
	l.all = append(l.all, v)
	return int32(len(l.all) - 1)
}

func phaseNumber(name string) int {
	return slices.Index([]string{record.PhaseCreated, record.PhaseBound, record.PhaseRunning, record.PhaseReady,
		record.PhaseDeleting, record.PhaseDeleted, record.PhaseUnknown}, name)
}

// stretch is a part of a life whose duration is shown.
type stretch struct {
	name     string
	from, to int
}

func stretches() []stretch {
	return []stretch{
		{"created to running", created, podRunning},
		{"created to bound", created, bound},
		{"bound to running", bound, podRunning},
		{"deleting to deleted", deleting, deleted},
	}
}

// spreads returns the distribution of every stretch for every group that has
// one, the largest group first.
func (t *tally) spreads() []Spread {
	l := t.lives
	var out []Spread
	for _, s := range stretches() {
		durations := make([]stats.Durations, len(l.names))
		for i, v := range l.all {
			from := v.at[s.from]
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
	return len(l.within) > 0 && l.all[i].at[s.to] != never && (l.within[vague{i, s.from}] > 0 || l.within[vague{i, s.to}] > 0)
}

// between bounds how long such a stretch took.
func (l *lives) between(i int32, s stretch) (lo, hi time.Duration) {
	took := max(l.all[i].at[s.to].Sub(l.all[i].at[s.from]), 0)
	before, after := l.within[vague{i, s.from}], l.within[vague{i, s.to}]
	if hi = took + before; before == record.Ever {
		hi = stats.Forever
	}
	return max(took-after, 0), hi
}

// measure adds how long the life was in a stretch. One that was not seen to end
// lasted at least until the object was deleted or the run ended.
func (v *life) measure(d *stats.Durations, s stretch, end clock.Time) {
	from, to := v.at[s.from], v.at[s.to]
	if to != never && to <= end {
		if torn := v.at[unknown]; torn != never && torn <= to {
			d.AddBetween(0, max(to.Sub(from), 0))
			return
		}
		d.Add(max(to.Sub(from), 0))
		return
	}
	for _, p := range []int{deleting, deleted} {
		if at := v.at[p]; at != never && p > s.from {
			end = min(end, at)
		}
	}
	d.AddBetween(max(end.Sub(from), 0), stats.Forever)
}

// podCharts draws how many pods there were, and how many per second came and went.
func (t *tally) podCharts() []TimeChart {
	l, g := t.lives, t.base
	if len(l.all) == 0 {
		return nil
	}
	var change, reached [phases][]float64
	for p := range phases {
		change[p], reached[p] = make([]float64, g.n), make([]float64, g.n)
	}
	for _, v := range l.all {
		for p, at := range v.at {
			if at == never {
				continue
			}
			reached[p][g.bin(at)]++
			change[p][g.bin(at)]++
			if gone := v.at[deleted]; gone != never && p < deleting {
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
