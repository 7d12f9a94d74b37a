package content

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// maxCells is how many cells of heat maps a page carries: kinds of calls past
// it are in the table only.
const maxCells = 120_000

// Data is what the charts of a page are drawn from. Times are seconds since the
// run clock's zero; in a comparison they count from each run's begin.
type Data struct {
	From       Num         `json:"from"`
	To         Num         `json:"to"`
	Steps      []chartStep `json:"steps"`
	Marks      []chartMark `json:"marks"`
	Time       []TimeChart `json:"time"`
	Arms       []string    `json:"arms,omitempty"` // of a comparison: the lines of each chart, in this order
	Startup    []Spread    `json:"startup"`
	Lifecycles [][]Spread  `json:"lifecycles,omitempty"` // of those that the scenario declares, in the order of the page
	Bound      Num         `json:"startupBound"`         // of the objective on pod startup, seconds; null without one
	Heat       heatChart   `json:"heat"`
	Buckets    buckets     `json:"buckets"`
}

// buckets tells the page what bucket numbers mean.
type buckets struct {
	Least     Num `json:"least"` // seconds
	PerDecade int `json:"perDecade"`
}

type chartStep struct {
	Name  string `json:"name"`
	From  Num    `json:"from"`
	To    Num    `json:"to"`
	Note  string `json:"note,omitempty"`
	Ended bool   `json:"ended"`
}

type chartMark struct {
	At   Num    `json:"at"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
}

// drawnEvent says whether an event is shown on the timeline: steps and the load
// have places of their own there.
func drawnEvent(t record.EventType) bool {
	switch t {
	case record.EventRunBegan, record.EventStepBegan, record.EventStepEnded, record.EventLoadAsked, record.EventScraped, record.EventScrapeFailed, record.EventPartEnded:
		return false
	}
	return true
}

// newChartMark writes an event for people: its numbers too are texts.
func newChartMark(e record.Event) chartMark {
	m := chartMark{At: Num(e.At.Seconds()), Kind: string(e.Type), Name: e.Name, Text: e.Text}
	switch e.Type {
	case record.EventPlaneReady:
		m.Text = fmt.Sprintf("%.3f", e.For.Seconds())
	case record.EventPartBegan:
		m.Text = "to " + e.To
	case record.EventNoServer:
		m.Text = "finds no API server ready: new connections are refused"
	case record.EventServerReady:
		m.Text = "finds an API server ready again"
	case record.EventFleetReady:
		m.Name = strconv.Itoa(e.Count)
	case record.EventRunEnded:
		m.Text = string(e.Reason)
		if e.Step != "" {
			m.Text += ": step " + e.Step
		}
		if e.Text != "" {
			m.Text += ": " + e.Text
		}
	case record.EventWatchGap:
		if e.For > 0 {
			m.Text = unit.Seconds(e.For.Seconds()) + ": " + e.Text
		}
	}
	return m
}

type heatChart struct {
	From  Num       `json:"from"`
	Width Num       `json:"width"`
	N     int       `json:"n"`
	Maps  []heatMap `json:"maps"`
}

// heatMap is one kind of call: cells are triples of the column's distance to
// the column before, the bucket and the number of calls.
type heatMap struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Calls  int    `json:"calls"`
	Cells  []int  `json:"cells"`
}

// newCharts arranges the records for drawing.
func (t *tally) newCharts(r *Report) Data {
	c := Data{
		From: Num(t.span.from.Seconds()), To: Num(t.span.to.Seconds()),
		Startup: r.Startup, Bound: startupBound(r.Objectives),
		Buckets: buckets{run.MinBucket, run.BucketsPerDecade},
		Heat:    t.heatChart(r.Calls),
	}
	for _, l := range r.Declared {
		c.Lifecycles = append(c.Lifecycles, l.Spreads)
	}
	for _, s := range t.steps {
		c.Steps = append(c.Steps, chartStep{s.Name, Num(s.From.Seconds()), Num(s.To.Seconds()), s.Note, s.Ended})
	}
	for _, e := range t.facts.Events {
		if drawnEvent(e.Type) && len(c.Marks) < 200 {
			c.Marks = append(c.Marks, newChartMark(e))
		}
	}
	c.Time = slices.Concat(t.loadCharts(), t.podCharts(), t.clusterCharts(), t.startupChart(), askedCharts(t.run), t.queueCharts(), clientsChart(t.run), t.usageCharts(r))
	return c
}

// startupBound is the bound that pods' startup is judged by.
func startupBound(all []Objective) Num {
	for _, o := range all {
		if o.SLI == "pod-startup" && !o.AtLeast && o.Unit == "seconds" {
			return Num(o.Threshold)
		}
	}
	return Num(math.NaN())
}

// loadCharts draws what was asked of the load against what was done.
func (t *tally) loadCharts() []TimeChart {
	line := t.facts.Timeline
	if len(line.Due) == 0 {
		return nil
	}
	counted := t.sumBins(line.Due)
	width := rateWindow(t.base, counted)
	g, due := perSecond(t.base, counted, width)
	_, ok := perSecond(t.base, t.sumBins(line.OK), width)
	lines := []namedValues{{"requested", t.requestedRate(g)}, {"offered (due)", due}, {"achieved (succeeded)", ok}}
	if slices.Max(line.Bad) > 0 {
		_, bad := perSecond(t.base, t.sumBins(line.Bad), width)
		lines = append(lines, namedValues{"failed or unanswered", bad})
	}
	return []TimeChart{
		drawLines(g, TimeChart{ID: "load", Title: "Offered and achieved load", Unit: "calls/s", Shape: shapeRate, Note: meanOver(g.width)}, lines),
		drawLines(t.base, TimeChart{ID: "open", Title: "Calls due and not yet answered, on average", Unit: "calls", Shape: shapeLevel},
			[]namedValues{{"waiting", t.averageBins(line.Open())}}),
	}
}

// requestedRate spreads each step's count over the time that its rate needs.
func (t *tally) requestedRate(g grid) []float64 {
	out := make([]float64, g.n)
	for _, s := range t.steps {
		if s.Asked.Rate <= 0 || s.Calls == 0 {
			continue
		}
		from := s.firstDue.Sub(t.base.from).Seconds() / g.width.Seconds()
		to := from + float64(s.Asked.Count)/s.Asked.Rate/g.width.Seconds()
		for i := int(from); i < min(g.n, int(math.Ceil(to))); i++ {
			covered := min(to, float64(i+1)) - max(from, float64(i))
			out[i] += s.Asked.Rate * max(covered, 0)
		}
	}
	return out
}

// heatChart draws latency over time: all load calls together, then each kind
// while there is room.
func (t *tally) heatChart(rows []CallRow) heatChart {
	out := heatChart{From: Num(t.heat.from.Seconds()), Width: Num(t.heat.width.Seconds()), N: t.heat.n}
	all, n, kinds := map[int]int{}, 0, 0
	for _, r := range rows {
		if r.Source != "load" {
			continue
		}
		n, kinds = n+r.N, kinds+1
		for cell, count := range r.heat {
			all[cell] += count
		}
	}
	room := maxCells
	if kinds > 1 {
		out.Maps = append(out.Maps, heatMap{"all calls of the load", "load", n, encodeCells(all)})
		room -= len(all)
	}
	for _, r := range rows {
		if room -= len(r.heat); room < 0 {
			break
		}
		out.Maps = append(out.Maps, heatMap{r.Name(), r.Source, r.N, encodeCells(r.heat)})
	}
	return out
}

func encodeCells(counts map[int]int) []int {
	keys := slices.Sorted(maps.Keys(counts))
	out, last := make([]int, 0, 3*len(keys)), 0
	for _, k := range keys {
		column, b := k/run.Buckets, k%run.Buckets
		out = append(out, column-last, b, counts[k])
		last = column
	}
	return out
}
