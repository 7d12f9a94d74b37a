package content

import (
	"cmp"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// transition is a part of a lifecycle whose duration is shown.
type transition struct{ name, from, to string }

func podTransitions() []transition {
	return []transition{
		{"created to running", record.PhaseCreated, record.PhaseRunning},
		{"created to bound", record.PhaseCreated, record.PhaseBound},
		{"bound to running", record.PhaseBound, record.PhaseRunning},
		{"deleting to deleted", record.PhaseDeleting, record.PhaseDeleted},
	}
}

// podLifecycles returns the lifecycles of pods that every run observes, of all groups.
func podLifecycles(facts *run.Facts) []*run.Lifecycles {
	var out []*run.Lifecycles
	for _, l := range facts.Lifecycles {
		if l.Resource == "pods" && l.Name == "" {
			out = append(out, l)
		}
	}
	return out
}

func countObjects(all []*run.Lifecycles) (n int) {
	for _, l := range all {
		n += l.Len()
	}
	return n
}

// newSpreads returns the distribution of every transition for every group that has
// one, the largest group first.
func newSpreads(facts *run.Facts, all []*run.Lifecycles, parts []transition) []Spread {
	var out []Spread
	for _, p := range parts {
		durations := map[string]*stats.Durations{}
		var groups []string
		for _, l := range all {
			d := durations[l.Group]
			if d == nil {
				d = &stats.Durations{}
				durations[l.Group] = d
				groups = append(groups, l.Group)
			}
			l.Durations(d, p.from, p.to, facts)
		}
		first := len(out)
		for _, g := range groups {
			if durations[g].Len() > 0 {
				out = append(out, newSpread(g, p.name, durations[g]))
			}
		}
		slices.SortStableFunc(out[first:], func(a, b Spread) int {
			return cmp.Or(cmp.Compare(b.All(), a.All()), cmp.Compare(a.Group, b.Group))
		})
	}
	return out
}

// podCharts draws how many pods there were, and how many per second came and went.
func (t *tally) podCharts() []TimeChart {
	pods, g := podLifecycles(t.facts), t.base
	if countObjects(pods) == 0 {
		return nil
	}
	phases := []string{record.PhaseCreated, record.PhaseRunning, record.PhaseDeleted}
	reached := make([][]float64, len(phases))
	for p, phase := range phases {
		reached[p] = make([]float64, g.n)
		for _, l := range pods {
			l.Drawn(phase, func(_ int, at clock.Time) { reached[p][g.bin(at)]++ })
		}
	}
	number := []namedValues{{"exist", t.countLevel(pods, record.PhaseCreated)}, {"bound to a node", t.countLevel(pods, record.PhaseBound)}, {"running", t.countLevel(pods, record.PhaseRunning)}}
	pace := []namedValues{{"created", reached[0]}, {"running", reached[1]}, {"deleted", reached[2]}}
	window := g
	for i := range pace {
		window, pace[i].values = perSecond(g, pace[i].values, time.Second)
	}
	return []TimeChart{
		drawLines(g, TimeChart{ID: "pods", Title: "Pods", Unit: "pods", Shape: shapeLevel}, number),
		drawLines(window, TimeChart{ID: "pod-rate", Title: "Pods per second", Unit: "pods/s", Shape: shapeRate}, pace),
	}
}

type namedValues struct {
	name   string
	values []float64
}

// drawLines fills a chart with lines condensed from values on one grid.
func drawLines(g grid, c TimeChart, lines []namedValues) TimeChart {
	shown := g
	for _, v := range lines {
		var line Line
		line, shown = condenseLine(v.name, g, v.values, chartBins)
		c.Lines = append(c.Lines, line)
	}
	c.From, c.Width = Num(shown.from.Seconds()), Num(shown.width.Seconds())
	return c
}
