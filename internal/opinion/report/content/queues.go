package content

import (
	"cmp"
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// shownGauges is how many lines a chart of queues has; those that never grew as
// long as these are left out.
const shownGauges = 6

type gaugeKey struct{ chart, line string }

// gauge is the sum of some series over time.
type gauge struct {
	key    gaugeKey
	points []point
}

// collectGauges returns how much waited where, as the components' own gauges tell it.
func collectGauges(all *series.Store) []gauge {
	parts := map[gaugeKey][]*series.Series{}
	for _, name := range queueNames() {
		for _, s := range all.Named(name) {
			if key, ok := queueOf(s.Series); ok && !s.IsHistogram() {
				parts[key] = append(parts[key], s)
			}
		}
	}
	var out []gauge
	for key, some := range parts {
		out = append(out, gauge{key, sumSeries(some)})
	}
	return out
}

// sumSeries adds series up. Values of one scrape become one point; what is no longer
// served counts nothing.
func sumSeries(all []*series.Series) []point {
	type change struct {
		of int
		point
	}
	var changes []change
	for i, s := range all {
		for k := range s.Len() {
			at, v := s.Sample(k)
			changes = append(changes, change{i, point{at, v}})
		}
		for _, at := range s.Ends() {
			changes = append(changes, change{i, point{at, 0}})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	last, sum := make([]float64, len(all)), 0.0
	var out []point
	for _, c := range changes {
		sum += c.value - last[c.of]
		last[c.of] = c.value
		if n := len(out); n > 0 && out[n-1].at == c.at {
			out[n-1].value = sum
		} else {
			out = append(out, point{c.at, sum})
		}
	}
	return out
}

// highestValue is the greatest value of all.
func (g *gauge) highestValue() float64 {
	most := 0.0
	for _, p := range g.points {
		most = max(most, p.value)
	}
	return most
}

// queueNames are the metrics that queueOf knows.
func queueNames() []string {
	return []string{"workqueue_depth", "scheduler_pending_pods", "etcd_server_proposals_pending",
		"apiserver_current_inflight_requests", "apiserver_flowcontrol_current_inqueue_requests"}
}

// queueOf says in which chart and line a series belongs, if in any.
func queueOf(s record.Series) (gaugeKey, bool) {
	switch s.Name {
	case "workqueue_depth":
		name := labelValue(s, "name")
		if s.Target != "kube-controller-manager" {
			name = s.Target + ": " + name
		}
		return gaugeKey{"queues", name}, true
	case "scheduler_pending_pods":
		return gaugeKey{"queues", "scheduler: " + labelValue(s, "queue")}, true
	case "etcd_server_proposals_pending":
		return gaugeKey{"queues", "etcd: proposals"}, true
	case "apiserver_current_inflight_requests":
		if labelValue(s, "request_kind") == "mutating" {
			return gaugeKey{"inflight", "changing, in flight"}, true
		}
		return gaugeKey{"inflight", "reading, in flight"}, true
	case "apiserver_flowcontrol_current_inqueue_requests":
		return gaugeKey{"inflight", "queued: " + labelValue(s, "priority_level")}, true
	}
	return gaugeKey{}, false
}

func labelValue(s record.Series, name string) string {
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
	all := collectGauges(t.facts.Series)
	for _, c := range []TimeChart{
		{ID: "inflight", Title: "Requests at kube-apiserver", Unit: "requests", Note: "as its own gauges told at each scrape"},
		{ID: "queues", Title: "Queues", Unit: "items", Note: "the longest ones, as the components told at each scrape"},
	} {
		chart := newTimeChart(g, c.ID, c.Title, c.Unit)
		chart.Note, chart.Shape = c.Note, shapeHold
		for _, line := range longestGauges(all, c.ID) {
			chart.Lines = append(chart.Lines, samplePoints(line.key.line, g, line.points, false))
		}
		if len(chart.Lines) > 0 {
			out = append(out, chart)
		}
	}
	return out
}

// longestGauges returns the gauges of a chart that rose above 0, the highest first.
func longestGauges(all []gauge, chart string) []gauge {
	all = slices.DeleteFunc(slices.Clone(all), func(g gauge) bool { return g.key.chart != chart || g.highestValue() <= 0 })
	slices.SortFunc(all, func(a, b gauge) int {
		return cmp.Or(cmp.Compare(b.highestValue(), a.highestValue()), cmp.Compare(a.key.line, b.key.line))
	})
	return all[:min(len(all), shownGauges)]
}
