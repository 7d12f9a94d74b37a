package content

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Arm is one variant of a comparison, with the reports of its runs.
type Arm struct {
	Name string
	Runs []*Report
}

// overlaid is a line of the runs' charts that is drawn for all arms.
type overlaid struct{ chart, line, title string }

// overlaidFirst are the lines that every comparison asks for; those of
// components and queues follow, whatever they are called.
func overlaidFirst() []overlaid {
	return []overlaid{
		{"load", "achieved (succeeded)", "Achieved load"},
		{"latency", "p99", "Latency of the load’s calls, p99"},
		{"latency", "p50", "Latency of the load’s calls, p50"},
		{"open", "waiting", "Calls due and not yet answered"},
		{"pods", "running", "Running pods"},
		{"pod-rate", "running", "Pods that began to run"},
		{"startup-time", "mean, running", "Startup of pods by when they were created, mean"},
		{"startup-time", "slowest, running", "Startup of pods by when they were created, slowest"},
	}
}

// Overlay lays the arms' runs over each other, from the begin of each: a line
// is the median of an arm's runs, with their least and greatest values about it.
func Overlay(arms []Arm) Data {
	first := arms[0].Runs[0]
	shift := first.Begin.Seconds()
	s := commonSpan(arms)
	out := Data{From: Num(s.from.Seconds()), To: Num(s.to.Seconds()), Bound: Num(math.NaN()), Buckets: buckets{run.MinBucket, run.BucketsPerDecade}}
	for _, step := range first.Charts.Steps {
		step.From, step.To = step.From-Num(shift), step.To-Num(shift)
		out.Steps = append(out.Steps, step)
	}
	for _, m := range first.Charts.Marks {
		m.At -= Num(shift)
		out.Marks = append(out.Marks, m)
	}
	g := newGrid(s, chartBins, time.Second)
	for _, o := range slices.Concat(overlaidFirst(), linesOf(arms, "cpu", "CPU of "), linesOf(arms, "memory", "Memory of "),
		linesOf(arms, "inflight", "Requests at kube-apiserver: "), linesOf(arms, "queues", "Queue: ")) {
		if c, ok := o.drawChart(g, arms); ok {
			out.Time = append(out.Time, c)
		}
	}
	for _, a := range arms {
		out.Arms = append(out.Arms, a.Name)
	}
	out.Startup = spreadsOf(arms)
	return out
}

// commonSpan is the stretch of time that holds all runs, counted from each one's begin.
func commonSpan(arms []Arm) span {
	out := span{clock.Time(math.MaxInt64), clock.Time(math.MinInt64)}
	for _, a := range arms {
		for _, r := range a.Runs {
			at := func(n Num) clock.Time { return clock.Time((float64(n) - r.Begin.Seconds()) * float64(time.Second)) }
			out.from, out.to = min(out.from, at(r.Charts.From)), max(out.to, at(r.Charts.To))
		}
	}
	return out
}

// linesOf names the lines of a chart in any run.
func linesOf(arms []Arm, chart, title string) []overlaid {
	var out []overlaid
	for _, a := range arms {
		for _, r := range a.Runs {
			for _, l := range r.lineNames(chart) {
				if o := (overlaid{chart, l, title + l}); !slices.Contains(out, o) {
					out = append(out, o)
				}
			}
		}
	}
	return out
}

func (r *Report) lineNames(chart string) []string {
	var out []string
	c, _ := r.findChart(chart)
	for _, l := range c.Lines {
		out = append(out, l.Name)
	}
	return out
}

// findChart finds a chart of the report; "latency" is made of its heat maps.
func (r *Report) findChart(id string) (TimeChart, bool) {
	if id == "latency" {
		return r.latencyChart()
	}
	i := slices.IndexFunc(r.Charts.Time, func(c TimeChart) bool { return c.ID == id })
	if i < 0 {
		return TimeChart{}, false
	}
	return r.Charts.Time[i], true
}

// drawChart lays one line of all arms over each other; not where no run has it.
func (o overlaid) drawChart(g grid, arms []Arm) (TimeChart, bool) {
	c := newTimeChart(g, o.chart+"-"+idOf(o.line), o.title, "")
	found := false
	for _, a := range arms {
		var runs []resampled
		limit := Num(math.NaN())
		for _, r := range a.Runs {
			from, ok := r.findChart(o.chart)
			i := slices.IndexFunc(from.Lines, func(l Line) bool { return l.Name == o.line })
			if !ok || i < 0 {
				continue
			}
			c.Unit, c.Shape, limit, found = from.Unit, armShape(from.Shape), from.Lines[i].Limit, true
			c.Note = cmp.Or(c.Note, from.Note)
			runs = append(runs, resampleLine(from, from.Lines[i], r.Begin.Seconds(), g))
		}
		line := medianLine(a.Name, g, runs)
		line.Limit = limit
		c.Lines = append(c.Lines, line)
	}
	return c, found
}

// armShape is a shape as it is when lines are of arms.
func armShape(shape string) string {
	if shape == shapeStack {
		return shapeSample
	}
	return shape
}

// idOf makes a part of an element's id of a name.
func idOf(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}

// resampled is a line on another grid; NaN where it says nothing.
type resampled struct{ mean, low, high []float64 }

// resampleLine carries a line over to a grid: means are weighted by time, extremes
// stay. Times of the chart are shifted to count from begin.
func resampleLine(c TimeChart, l Line, begin float64, g grid) resampled {
	out := resampled{make([]float64, g.n), make([]float64, g.n), make([]float64, g.n)}
	weight := make([]float64, g.n)
	for i := range g.n {
		out.low[i], out.high[i] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range l.Mean {
		if math.IsNaN(float64(v)) {
			continue
		}
		low, high := v, v
		if l.High != nil {
			low, high = l.Low[i], l.High[i]
		}
		from := (float64(c.From) + float64(i)*float64(c.Width) - begin - g.from.Seconds()) / g.width.Seconds()
		to := from + float64(c.Width)/g.width.Seconds()
		for b := max(int(math.Floor(from)), 0); b < min(int(math.Ceil(to-1e-9)), g.n); b++ {
			share := min(to, float64(b+1)) - max(from, float64(b))
			out.mean[b] += float64(v) * share
			weight[b] += share
			out.low[b], out.high[b] = min(out.low[b], float64(low)), max(out.high[b], float64(high))
		}
	}
	for i := range g.n {
		if weight[i] <= 1e-9 {
			out.mean[i], out.low[i], out.high[i] = math.NaN(), math.NaN(), math.NaN()
		} else {
			out.mean[i] /= weight[i]
		}
	}
	return out
}

// medianLine is an arm's line: the median of its runs, and their extremes.
func medianLine(name string, g grid, runs []resampled) Line {
	line := Line{Name: name, Limit: Num(math.NaN())}
	spread := false
	for i := range g.n {
		var means []float64
		low, high := math.Inf(1), math.Inf(-1)
		for _, r := range runs {
			if !math.IsNaN(r.mean[i]) {
				means = append(means, r.mean[i])
				low, high = min(low, r.low[i]), max(high, r.high[i])
			}
		}
		mean := math.NaN()
		if len(means) > 0 {
			mean = stats.Median(means).Value
			spread = spread || high > low
		}
		line.Mean, line.Low, line.High = append(line.Mean, Num(mean)), append(line.Low, Num(low)), append(line.High, Num(high))
	}
	if !spread {
		line.Low, line.High = nil, nil
	}
	return line
}

// latencyChart draws quantiles of the load's latency over time, each the upper
// end of its bucket, as the heat map has them.
func (r *Report) latencyChart() (TimeChart, bool) {
	heat := r.Charts.Heat
	counts := make([][run.Buckets]int, heat.N)
	n := 0
	for _, row := range r.Calls {
		if row.Source != "load" {
			continue
		}
		for cell, count := range row.heat {
			counts[cell/run.Buckets][cell%run.Buckets] += count
			n += count
		}
	}
	c := TimeChart{ID: "latency", Unit: "seconds", From: heat.From, Width: heat.Width}
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		line := Line{Name: q.name, Limit: Num(math.NaN())}
		for _, column := range counts {
			line.Mean = append(line.Mean, Num(columnQuantile(column[:], q.q)))
		}
		c.Lines = append(c.Lines, line)
	}
	return c, n > 0
}

func columnQuantile(counts []int, q float64) float64 {
	n := 0
	for _, c := range counts {
		n += c
	}
	left := int(math.Ceil(q*float64(n) - 1e-9))
	for b, c := range counts {
		if left -= c; n > 0 && left <= 0 {
			return run.MinBucket * math.Pow(10, float64(b)/run.BucketsPerDecade)
		}
	}
	return math.NaN()
}

// spreadsOf are the distributions of the arms' runs: counts of all runs of an
// arm together, quantiles the medians of its runs, the greatest of all.
func spreadsOf(arms []Arm) []Spread {
	type key struct{ phase, group string }
	var order []key
	all := map[key][][]Spread{}
	for i, a := range arms {
		for _, r := range a.Runs {
			for _, s := range r.Startup {
				k := key{s.Phase, s.Group}
				if all[k] == nil {
					order, all[k] = append(order, k), make([][]Spread, len(arms))
				}
				all[k][i] = append(all[k][i], s)
			}
		}
	}
	phases := podTransitions()
	rank := func(k key) int { return slices.IndexFunc(phases, func(s transition) bool { return s.name == k.phase }) }
	slices.SortStableFunc(order, func(a, b key) int { return cmp.Compare(rank(a), rank(b)) })
	var out []Spread
	for _, k := range order {
		for i, a := range arms {
			if len(all[k][i]) > 0 {
				out = append(out, mergeSpreads(a.Name, all[k][i]))
			}
		}
	}
	return out
}

func mergeSpreads(arm string, runs []Spread) Spread {
	out := Spread{Group: runs[0].Group, Phase: runs[0].Phase, Arm: arm, First: runs[0].First, Max: runs[0].Max}
	last := out.First
	for _, s := range runs {
		out.N, out.Open, out.Bounded = out.N+s.N, out.Open+s.Open, out.Bounded+s.Bounded
		out.First, last, out.Max = min(out.First, s.First), max(last, s.First+len(s.Counts)), max(out.Max, s.Max)
	}
	out.Counts = make([]int, last-out.First)
	for _, s := range runs {
		for i, n := range s.Counts {
			out.Counts[s.First-out.First+i] += n
		}
	}
	for _, q := range []struct {
		of  func(Spread) Num
		out *Num
	}{
		{func(s Spread) Num { return s.P50 }, &out.P50}, {func(s Spread) Num { return s.P90 }, &out.P90}, {func(s Spread) Num { return s.P99 }, &out.P99},
	} {
		var v []float64
		for _, s := range runs {
			if !math.IsNaN(float64(q.of(s))) {
				v = append(v, float64(q.of(s)))
			}
		}
		if *q.out = Num(math.NaN()); len(v) > 0 {
			*q.out = Num(stats.Median(v).Value)
		}
	}
	return out
}
