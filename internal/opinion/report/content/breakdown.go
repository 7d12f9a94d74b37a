package content

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// shownGroups is how many groups have their lifecycles taken apart.
const shownGroups = 4

// Breakdown says where the time of a group's objects went: how long each part of
// their lifecycles took on average, for the fast ones and for the slow ones. It counts
// the objects that were seen in every phase.
type Breakdown struct {
	Group   string
	Objects int
	Bands   []Band
}

// Band is a share of a group's objects, by how long they took.
type Band struct {
	Name    string
	Objects int
	Parts   []float64 // mean seconds of each of the parts
	Total   float64   // their sum
}

// parting is how lifecycles are taken apart: at which phases, and which of them is
// the one that objects are ordered by.
type parting struct {
	phases  []string // from created on
	ordered int      // place in phases
}

// podParting takes the startup of pods apart; they are ordered by when they run.
func podParting() parting {
	return parting{[]string{record.PhaseCreated, record.PhaseBound, record.PhaseRunning, record.PhaseReady}, 2}
}

// partNames returns what the parts are called.
func (p parting) partNames() []string {
	var out []string
	for i := 1; i < len(p.phases); i++ {
		out = append(out, p.phases[i-1]+" to "+p.phases[i])
	}
	return out
}

// tookApart are the durations of one lifecycle's parts.
type tookApart []time.Duration

// upTo is how long the first n parts took together.
func (a tookApart) upTo(n int) (sum time.Duration) {
	for _, d := range a[:n] {
		sum += d
	}
	return sum
}

// newBreakdowns takes the lifecycles of the largest groups apart.
func newBreakdowns(facts *run.Facts, all []*run.Lifecycles, p parting) []Breakdown {
	byGroup := map[string][]tookApart{}
	var groups []string
	for _, l := range all {
		if !slices.Contains(groups, l.Group) {
			groups = append(groups, l.Group)
		}
		for row := range l.Len() {
			if a, ok := takeApart(facts, l, row, p); ok {
				byGroup[l.Group] = append(byGroup[l.Group], a)
			}
		}
	}
	var out []Breakdown
	for _, g := range groups {
		if len(byGroup[g]) > 0 {
			out = append(out, newBreakdown(g, byGroup[g], p.ordered))
		}
	}
	slices.SortStableFunc(out, func(a, b Breakdown) int { return cmp.Compare(b.Objects, a.Objects) })
	return out[:min(len(out), shownGroups)]
}

// takeApart returns how long each part of a lifecycle took, of an object that was
// created in the run and is known to have reached every phase at a moment of it.
// Where two watches showed phases in the other order, the earlier part ends with
// the later one's begin.
func takeApart(facts *run.Facts, l *run.Lifecycles, row int, p parting) (out tookApart, ok bool) {
	last := clock.Time(math.MinInt64)
	out = make(tookApart, len(p.phases)-1)
	for i, phase := range p.phases {
		m, seen := l.PhaseTime(row, phase)
		if !seen || m.First != m.Last || m.Last > facts.End || i == 0 && m.Last < facts.Begin {
			return nil, false
		}
		if i > 0 {
			out[i-1] = max(m.Last.Sub(last), 0)
		}
		last = max(last, m.Last)
	}
	return out, true
}

func newBreakdown(group string, all []tookApart, ordered int) Breakdown {
	slices.SortFunc(all, func(a, b tookApart) int { return cmp.Compare(a.upTo(ordered), b.upTo(ordered)) })
	out := Breakdown{Group: group, Objects: len(all)}
	from := 0
	for _, b := range []struct {
		name string
		to   float64
	}{{"fastest half", 0.5}, {"up to p90", 0.9}, {"p90 to p99", 0.99}, {"slowest 1 %", 1}} {
		to := int(math.Ceil(b.to*float64(len(all)) - 1e-9))
		if to > from {
			out.Bands = append(out.Bands, newBand(b.name, all[from:to]))
		}
		from = max(from, to)
	}
	return out
}

func newBand(name string, all []tookApart) Band {
	b := Band{Name: name, Objects: len(all), Parts: make([]float64, len(all[0]))}
	for _, a := range all {
		for i, d := range a {
			b.Parts[i] += d.Seconds() / float64(len(all))
		}
	}
	for _, p := range b.Parts {
		b.Total += p
	}
	return b
}

// startupChart draws how long pods took by when they were created: means to
// each phase on top of each other, and the slowest pod.
func (t *tally) startupChart() []TimeChart {
	g := newGrid(t.span, chartBins, time.Second)
	var n, toBound, toRunning, slowest = make([]float64, g.n), make([]float64, g.n), make([]float64, g.n), make([]float64, g.n)
	pods, p := 0, podParting()
	for _, l := range podLifecycles(t.facts) {
		for row := range l.Len() {
			a, ok := takeApart(t.facts, l, row, p)
			if !ok {
				continue
			}
			at, _ := l.At(row, record.PhaseCreated)
			i := g.bin(at)
			n[i]++
			pods++
			toBound[i] += a[0].Seconds()
			toRunning[i] += a.upTo(2).Seconds()
			slowest[i] = max(slowest[i], a.upTo(2).Seconds())
		}
	}
	if pods == 0 {
		return nil
	}
	for i := range n {
		toBound[i], toRunning[i] = toBound[i]/n[i], toRunning[i]/n[i] // NaN where there is none: a gap
		if n[i] == 0 {
			slowest[i] = math.NaN()
		}
	}
	c := newTimeChart(g, "startup-time", "Startup of pods, by when they were created", "seconds")
	c.Shape = shapeStack
	return []TimeChart{drawLines(g, c, []namedValues{{"slowest, running", slowest}, {"mean, running", toRunning}, {"mean, bound", toBound}})}
}
