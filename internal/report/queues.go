package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// shownGauges is how many lines a chart of queues has; those that never grew as
// long as these are left out.
const shownGauges = 6

// queues holds how much waited where, as the components' own gauges tell it.
type queues struct {
	byID map[record.SeriesID]*gauge
	all  map[gaugeKey]*gauge
}

type gaugeKey struct{ chart, line string }

// gauge is the sum of some series over time.
type gauge struct {
	key    gaugeKey
	last   map[record.SeriesID]float64
	sum    float64
	peak   float64
	points []point
}

func newQueues() *queues {
	return &queues{map[record.SeriesID]*gauge{}, map[gaugeKey]*gauge{}}
}

func (q *queues) visit(s *record.Stream, v record.Sample) {
	g, known := q.byID[v.Series]
	if !known {
		if key, ok := queueOf(s.Series[v.Series]); ok {
			if g = q.all[key]; g == nil {
				g = &gauge{key: key, last: map[record.SeriesID]float64{}}
				q.all[key] = g
			}
		}
		q.byID[v.Series] = g
	}
	if g != nil {
		g.set(v.Series, v.At, v.Value)
	}
}

// gone takes out what is no longer served.
func (q *queues) gone(v record.Gone) {
	if g := q.byID[v.Series]; g != nil {
		g.set(v.Series, v.At, 0)
	}
}

// set changes one of the series. Values of one scrape become one point.
func (g *gauge) set(id record.SeriesID, at clock.Time, v float64) {
	g.sum += v - g.last[id]
	g.last[id] = v
	if n := len(g.points); n > 0 && g.points[n-1].at == at {
		g.points[n-1].value = g.sum
	} else {
		if n > 0 {
			g.peak = max(g.peak, g.points[n-1].value) // that scrape is complete
		}
		g.points = append(g.points, point{at, g.sum})
	}
}

// highest is the greatest value of all.
func (g *gauge) highest() float64 {
	if n := len(g.points); n > 0 {
		return max(g.peak, g.points[n-1].value)
	}
	return g.peak
}

// queueOf says in which chart and line a series belongs, if in any.
func queueOf(s record.Series) (gaugeKey, bool) {
	switch s.Name {
	case "workqueue_depth":
		name := label(s, "name")
		if s.Target != "kube-controller-manager" {
			name = s.Target + ": " + name
		}
		return gaugeKey{"queues", name}, true
	case "scheduler_pending_pods":
		return gaugeKey{"queues", "scheduler: " + label(s, "queue")}, true
	case "etcd_server_proposals_pending":
		return gaugeKey{"queues", "etcd: proposals"}, true
	case "apiserver_current_inflight_requests":
		if label(s, "request_kind") == "mutating" {
			return gaugeKey{"inflight", "changing, in flight"}, true
		}
		return gaugeKey{"inflight", "reading, in flight"}, true
	case "apiserver_flowcontrol_current_inqueue_requests":
		return gaugeKey{"inflight", "queued: " + label(s, "priority_level")}, true
	}
	return gaugeKey{}, false
}

func label(s record.Series, name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// queueCharts draws the queues that anything ever waited in.
func (t *tally) queueCharts() []TimeChart {
	g := newGrid(t.span, chartBins, sampleEvery)
	var out []TimeChart
	for _, c := range []TimeChart{
		{ID: "inflight", Title: "Requests at kube-apiserver", Unit: "requests", Note: "as its own gauges told at each scrape"},
		{ID: "queues", Title: "Queues", Unit: "items", Note: "the longest ones, as the components told at each scrape"},
	} {
		chart := newTimeChart(g, c.ID, c.Title, c.Unit)
		chart.Note, chart.Shape = c.Note, shapeHold
		for _, line := range t.queues.longest(c.ID) {
			chart.Lines = append(chart.Lines, sampled(line.key.line, g, line.points, false))
		}
		if len(chart.Lines) > 0 {
			out = append(out, chart)
		}
	}
	return out
}

// longest are the gauges of a chart that rose above 0, the highest first.
func (q *queues) longest(chart string) []*gauge {
	all := slices.SortedFunc(maps.Values(q.all), func(a, b *gauge) int {
		return cmp.Or(cmp.Compare(b.highest(), a.highest()), cmp.Compare(a.key.line, b.key.line))
	})
	all = slices.DeleteFunc(all, func(g *gauge) bool { return g.key.chart != chart || g.highest() <= 0 })
	return all[:min(len(all), shownGauges)]
}
