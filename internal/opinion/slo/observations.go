package slo

import (
	"maps"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// observeEvery is how far apart the observations of a target are that is not scraped: as
// far as package usage's samples.
const observeEvery = time.Second

// part is what of a figure is read from one target, and when it was read.
type part struct {
	series   []*series.Series
	scraped  bool
	observed []clock.Time // within the run, ascending
	before   bool         // there was an observation before the run
}

// partsByTarget returns a figure's, in the order of their targets' names.
func (g *figure) partsByTarget() []part {
	byTarget := map[string][]*series.Series{}
	for _, s := range g.series {
		byTarget[s.Target] = append(byTarget[s.Target], s)
	}
	var out []part
	for _, target := range slices.Sorted(maps.Keys(byTarget)) {
		out = append(out, partOf(g.f, target, byTarget[target]))
	}
	return out
}

// partOf says when series of one target were observed: at its scrapes, or at
// even distances in the time in which it was metered. A sample is written only
// where a value has changed, so that samples are no even observations, and that there
// is none does not mean that nobody observed.
func partOf(f *run.Facts, target string, all []*series.Series) part {
	scrapes := f.Series.Scrapes(target)
	within := inRun(f, scrapes)
	changed := func() bool {
		return slices.ContainsFunc(all, func(s *series.Series) bool { return len(inRun(f, sampleTimes(s))) > 0 })
	}
	if len(within) > 0 || len(scrapes) > 0 && !changed() {
		return part{series: all, scraped: true, observed: within, before: len(scrapes) > 0 && scrapes[0] < f.Begin}
	}
	out := part{series: all}
	if metered := f.Series.Metered(target); len(metered) > 0 {
		out.before = metered[0] < f.Begin
		for t := max(f.Begin, metered[0]); t <= min(f.End, metered[len(metered)-1]); t = t.Add(observeEvery) {
			out.observed = append(out.observed, t)
		}
	}
	return out
}

// sampleTimes returns the times of a series' samples.
func sampleTimes(s *series.Series) []clock.Time {
	out := make([]clock.Time, s.Len())
	for i := range out {
		out[i], _ = s.Sample(i)
	}
	return out
}

// inRun cuts ascending times to those of the run.
func inRun(f *run.Facts, times []clock.Time) []clock.Time {
	first, _ := slices.BinarySearch(times, f.Begin)
	end, _ := slices.BinarySearch(times, f.End+1)
	return times[first:max(first, end)]
}

// observationTimes returns the times in the run at which any of the figure's targets
// was observed.
func (g *figure) observationTimes() []clock.Time {
	var out []clock.Time
	for _, p := range g.partsByTarget() {
		out = append(out, p.observed...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// allTimes returns the observations, and the samples between them.
func (g *figure) allTimes() []clock.Time {
	out := g.observationTimes()
	for _, s := range g.series {
		out = append(out, inRun(g.f, sampleTimes(s))...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// countIntervals is how many times a counter was observed after another observation; 0
// where nobody knows whether it rose in the run.
func (g *figure) countIntervals() (most int) {
	for _, p := range g.partsByTarget() {
		n := len(p.observed)
		if n > 0 && !p.before {
			n--
		}
		most = max(most, n)
	}
	return most
}

// levelsAt returns a gauge's values at some times, over all its series that are
// served then.
func (g *figure) levelsAt(times []clock.Time) []float64 {
	var out []float64
	for _, t := range times {
		level, any := 0.0, false
		for _, s := range g.series {
			v, ok := s.At(t)
			switch {
			case !ok || !isFinite(v) || s.Gone(t):
				continue
			case g.x.Most && any:
				level = max(level, v*g.unitFactor())
			case g.x.Most:
				level = v * g.unitFactor()
			default:
				level += v * g.unitFactor()
			}
			any = true
		}
		if any {
			out = append(out, level)
		}
	}
	return out
}

// counterRates returns how fast a counter rose from each observation to the next, of the target
// that was observed most. Targets are not observed together: each has its own
// rate between two observations of its own, and these are added up.
func (g *figure) counterRates() []float64 {
	var grid []clock.Time
	var courses []course
	for _, p := range g.partsByTarget() {
		courses = append(courses, p.followCounters(g.f))
		if len(p.observed) > len(grid) {
			grid = p.observed
		}
	}
	var out []float64
	for i := 1; i < len(grid); i++ {
		sum, any := 0.0, false
		for _, c := range courses {
			if rate, ok := c.rateBetween(grid[i-1], grid[i]); ok {
				sum, any = sum+rate, true
			}
		}
		if any {
			out = append(out, sum*g.unitFactor())
		}
	}
	return out
}

// course is by how much one target's counters had risen at some times since
// the first of them.
type course struct {
	at    []clock.Time
	risen []float64
}

// followCounters follows counters from observation to observation; where they are not scraped from
// sample to sample, since observations at even distances would see now none and now
// two of these.
func (p part) followCounters(f *run.Facts) course {
	c := course{at: p.observed}
	if !p.scraped && len(p.observed) > 0 {
		first, last := p.observed[0], p.observed[len(p.observed)-1]
		c.at = []clock.Time{first, last}
		for _, s := range p.series {
			for _, t := range inRun(f, sampleTimes(s)) {
				if t > first && t < last {
					c.at = append(c.at, t)
				}
			}
		}
		slices.Sort(c.at)
		c.at = slices.Compact(c.at)
	}
	c.risen = make([]float64, len(c.at))
	for i := 1; i < len(c.at); i++ {
		c.risen[i] = c.risen[i-1]
		for _, s := range p.series {
			rise, _ := s.Increase(c.at[i-1], c.at[i])
			c.risen[i] += rise
		}
	}
	return c
}

// rateBetween is how fast the counters rose per second in that part of a stretch in
// which they were observed; false where there is none.
func (c course) rateBetween(from, to clock.Time) (float64, bool) {
	if len(c.at) < 2 {
		return 0, false
	}
	from, to = max(from, c.at[0]), min(to, c.at[len(c.at)-1])
	if from >= to {
		return 0, false
	}
	return (c.riseBy(to) - c.riseBy(from)) / to.Sub(from).Seconds(), true
}

// riseBy is the rise by a moment between the first and the last: even in between.
func (c course) riseBy(t clock.Time) float64 {
	i, exact := slices.BinarySearch(c.at, t)
	if exact {
		return c.risen[i]
	}
	done := t.Sub(c.at[i-1]).Seconds() / c.at[i].Sub(c.at[i-1]).Seconds()
	return c.risen[i-1] + done*(c.risen[i]-c.risen[i-1])
}
