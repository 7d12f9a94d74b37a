package content

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// drawnClusters is how many clusters have a line of their own in a chart; the others
// are one line together.
const drawnClusters = 10

// drawnPhases is how many phases of a lifecycle have a line.
const drawnPhases = 6

// clusterCharts draw lifecycles that are of several clusters: of all together, and
// cluster by cluster. That of all pods together stands in every report.
func (t *tally) clusterCharts() []TimeChart {
	out := t.byCluster("pods", "Pods running", podLifecycles(t.facts), record.PhaseRunning)
	var names []string
	for _, l := range t.facts.Lifecycles {
		if l.Name != "" && !slices.Contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	for i, name := range names {
		all := t.facts.Named(name)
		if len(run.Clusters(all)) < 2 {
			continue
		}
		id, phases := "lifecycle-"+strconv.Itoa(i+1), orderPhases(t.run, name, all)
		phases = phases[:min(drawnPhases, len(phases))]
		lines := []namedValues{{"exist", t.countLevel(all, record.PhaseCreated)}}
		for _, phase := range phases {
			lines = append(lines, namedValues{phase, t.countLevel(all, phase)})
		}
		out = append(out, drawLines(t.base, TimeChart{ID: id + "-sum", Title: name + ", in all clusters", Unit: "objects", Shape: shapeLevel}, lines))
		last := record.PhaseCreated
		if len(phases) > 0 {
			last = phases[len(phases)-1]
		}
		out = append(out, t.byCluster(id, name+" "+last, all, last)...)
	}
	return out
}

// byCluster draws how many objects have reached a phase, a line for each cluster,
// those with the most of them first; nothing where all are in one.
func (t *tally) byCluster(id, title string, all []*run.Lifecycles, phase string) []TimeChart {
	names := run.Clusters(all)
	if len(names) < 2 {
		return nil
	}
	size := map[string]int{}
	for _, name := range names {
		size[name] = countObjects(run.In(all, name))
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(size[b], size[a]) })
	var lines []namedValues
	own := names[:min(drawnClusters, len(names))]
	for _, name := range own {
		lines = append(lines, namedValues{cmp.Or(name, "the plane"), t.countLevel(run.In(all, name), phase)})
	}
	if others := names[len(own):]; len(others) > 0 {
		var rest []*run.Lifecycles
		for _, name := range others {
			rest = append(rest, run.In(all, name)...)
		}
		lines = append(lines, namedValues{fmt.Sprintf("%d others", len(others)), t.countLevel(rest, phase)})
	}
	return []TimeChart{drawLines(t.base, TimeChart{ID: id + "-by-cluster", Title: title + ", by cluster", Unit: "objects", Shape: shapeLevel}, lines)}
}

// countLevel counts the objects that have reached a phase and are not deleted, at each
// bin's end.
func (t *tally) countLevel(all []*run.Lifecycles, phase string) []float64 {
	g := t.base
	change := make([]float64, g.n)
	for _, l := range all {
		deleted := slices.Repeat([]clock.Time{never}, l.Len())
		l.Drawn(record.PhaseDeleted, func(row int, at clock.Time) { deleted[row] = at })
		l.Drawn(phase, func(row int, at clock.Time) {
			change[g.bin(at)]++
			if gone := deleted[row]; gone != never {
				change[max(g.bin(gone), g.bin(at))]--
			}
		})
	}
	return runningSum(change)
}
