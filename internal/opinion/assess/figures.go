package assess

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/capacity/growth"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Figure is a number of one run. One that a run lacks is 0 where Zero says so, as a count is.
type Figure struct {
	Name, Unit string
	Value      float64
	Zero       bool
}

// Value is a number with its 95 % interval.
type Value struct {
	Value    float64    `json:"value"`
	Interval [2]float64 `json:"interval"`
}

// valueOf is an estimate without what rounding leaves of a 0 among numbers of this size.
func valueOf(e stats.Estimate, size float64) Value {
	const rounding = 1e-9
	zero := func(v float64) float64 {
		if math.Abs(v) < rounding*size {
			return 0
		}
		return v
	}
	return Value{zero(e.Value), [2]float64{zero(e.Interval[0]), zero(e.Interval[1])}}
}

// text writes a value: "6.5 s (6.1 s to 6.9 s)".
func (v Value) text(of string) string {
	value, interval := unit.Text(v.Value, of), v.intervalText(of)
	if interval == value {
		return value
	}
	return fmt.Sprintf("%s (%s)", value, interval)
}

func (v Value) intervalText(of string) string { return rangeText(v.Interval[0], v.Interval[1], of) }

// rangeText writes "487 to 501 requests", of times and sizes both units: "900 ms to 1.1 s".
func rangeText(low, high float64, of string) string {
	from, to := unit.Text(low, of), unit.Text(high, of)
	if from == to {
		return from
	}
	if to == unit.Number(high)+" "+of {
		from = unit.Number(low)
	}
	return from + " to " + to
}

// Line is how a figure grows with the size: so much without objects, and so much for each.
type Line struct {
	Name      string        `json:"name"`
	Unit      string        `json:"unit"`
	Intercept Value         `json:"intercept"`
	Slope     Value         `json:"slope"`
	Shape     string        `json:"shape"` // linear or superlinear where the evidence tells; empty: it does not
	Points    []stats.Point `json:"points"`
}

// grows tells whether the growth stands out from what like runs differ by.
func (l Line) grows() bool { return l.Slope.Interval[0] > 0 }

// lines fits the figures of the runs of several sizes, those that grow most first.
func lines(sizes []float64, figures [][]Figure, seed uint64) (out []Line) {
	type key struct{ name, unit string }
	points, zero := map[key][]stats.Point{}, map[key]bool{}
	for i, of := range figures {
		for _, f := range of {
			k := key{f.Name, f.Unit}
			points[k], zero[k] = append(points[k], stats.Point{X: sizes[i], Y: f.Value}), f.Zero
		}
	}
	for k, p := range points {
		if len(p) < len(sizes) {
			if !zero[k] {
				continue // not measured in every run
			}
			p = withZeros(p, sizes)
		}
		line, ok := stats.FitLine(p)
		if !ok {
			continue
		}
		highest := slices.MaxFunc(p, func(a, b stats.Point) int { return cmp.Compare(a.Y, b.Y) })
		l := Line{Name: k.name, Unit: k.unit, Intercept: valueOf(line.Intercept, highest.Y), Slope: valueOf(line.Slope, highest.Y/highest.X), Points: p}
		if g, ok := stats.Grow(p, seed); ok {
			for shape, weight := range map[string]float64{growth.Linear: g.Evidence(stats.Linear), growth.Superlinear: g.Evidence(stats.Linearithmic, stats.Quadratic)} {
				if weight >= growth.Clear {
					l.Shape = shape
				}
			}
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(b.Slope.Value, a.Slope.Value), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// withZeros adds the runs that lack a count.
func withZeros(p []stats.Point, sizes []float64) []stats.Point {
	have := map[float64]int{}
	for _, one := range p {
		have[one.X]++
	}
	for _, x := range sizes {
		if have[x]--; have[x] < 0 {
			p = append(p, stats.Point{X: x})
		}
	}
	return p
}

// counted are the counters of a run with a prefix and a unit, under their names behind the prefix.
func (o Observation) counted(prefix, of, as string) (out []Figure) {
	if o.Run.Facts == nil {
		return nil
	}
	for _, c := range o.Run.Facts.Totals() {
		if name, ok := strings.CutPrefix(c.Name, prefix); ok && c.Unit == of {
			out = append(out, Figure{as + name, of, c.Value, true})
		}
	}
	return out
}

// sum adds up figures; without any nothing was counted, and there is no sum.
func sum(name, of string, all []Figure) []Figure {
	out := Figure{Name: name, Unit: of, Zero: true}
	for _, f := range all {
		out.Value += f.Value
	}
	return []Figure{out}[:min(1, len(all))]
}

// requestFigures are the requests of a run: all, by component and by resource.
func (o Observation) requestFigures() []Figure {
	all := o.counted("server: ", "requests", "")
	out := slices.Concat(sum("all requests", "requests", all), all)
	for _, name := range slices.Sorted(maps.Keys(o.Requests)) {
		out = append(out, Figure{"sent by " + name, "requests", o.Requests[name], true})
	}
	return out
}

// objectFigures are the objects that a run created in etcd.
func (o Observation) objectFigures() []Figure {
	all := o.counted("etcd: create ", "requests", "")
	for i := range all {
		all[i].Unit = "objects"
	}
	return slices.Concat(sum("all objects", "objects", all), all)
}

// byteFigures are the bytes that a run stored and sent.
func (o Observation) byteFigures() []Figure {
	watched := o.counted("watch events: ", "bytes", "watch events: ")
	return slices.Concat(sum("all watch events", "bytes", watched), watched, o.counted("log written: ", "bytes", "log written by "),
		o.measured("etcd_size_in_use_max_bytes", "database of etcd"))
}

// measured is a measure of verdict.json; nothing where the run lacks it.
func (o Observation) measured(key, name string) []Figure {
	m, ok := o.Run.Judgement.Measures[key]
	if !ok {
		return nil
	}
	return []Figure{{Name: name, Unit: m.Unit, Value: m.Value}}
}

// How figures of a program begin.
const (
	memoryOf = "peak memory of "
	cpuOf    = "CPU of "
)

// programs are the programs of a plane and those that are tested.
func programs(subjects []string) []string {
	others := slices.DeleteFunc(component.Names(), func(name string) bool { return slices.Contains(subjects, name) })
	return slices.Concat(subjects, others)
}

func (o Observation) memoryFigures(subjects []string) (out []Figure) {
	for _, p := range programs(subjects) {
		out = append(out, o.measured(slo.Key("peak_rss_bytes", p), memoryOf+p)...)
	}
	return out
}

func (o Observation) cpuFigures(subjects []string) (out []Figure) {
	for _, p := range programs(subjects) {
		out = append(out, o.measured(slo.Key("cpu_seconds", p), cpuOf+p)...)
	}
	return out
}

// sweepFigures are those that a sweep compares: the objectives, and what the tested programs
// and the API server took.
func (o Observation) sweepFigures(subjects []string) (out []Figure) {
	for _, r := range o.Run.Judgement.Objectives {
		if r.Value != nil {
			out = append(out, Figure{Name: objectiveName(r), Unit: r.Unit, Value: *r.Value})
		}
	}
	for _, p := range slices.Compact(append(slices.Clone(subjects), component.APIServer)) {
		out = append(out, o.measured(slo.Key("cpu_seconds", p), cpuOf+p)...)
		out = append(out, o.measured(slo.Key("peak_rss_bytes", p), memoryOf+p)...)
	}
	for _, p := range subjects {
		var sent []Figure
		for name, n := range o.Requests {
			if strings.HasPrefix(name, p+": ") {
				sent = append(sent, Figure{Value: n})
			}
		}
		out = append(out, sum("requests of "+p, "requests", sent)...)
		out = append(out, o.measured(slo.Key("workqueue_latency_p99_seconds", p), "wait in work queues of "+p+", p99")...)
	}
	all := o.counted("server: ", "requests", "")
	out = append(out, sum("all requests", "requests", all)...)
	for i := range all {
		if !strings.HasPrefix(all[i].Name, "LIST ") {
			all[i].Value = 0
		}
	}
	return append(out, sum("LIST requests", "requests", all)...)
}

// objectiveName names an objective; one without a name of its own by its labels.
func objectiveName(r slo.Result) string {
	parts := []string{r.Name}
	if r.Name == r.SLI {
		for _, label := range slices.Sorted(maps.Keys(r.Labels)) {
			parts = append(parts, r.Labels[label])
		}
	}
	return strings.TrimSuffix(strings.Join(parts, " ")+", "+r.Statistic, ", ")
}

// Cell is a figure of the runs of one arm.
type Cell struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Row is a figure over the values of a sweep; a value whose runs lack it has no runs.
type Row struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Cells []Cell `json:"cells"`
	Apart bool   `json:"apart"` // the runs of the first value and those of the last do not overlap
}

// rows tabulates figures by value of a sweep: figures[i] are those of the runs with value i.
func rows(figures [][][]Figure) (out []Row) {
	values := map[string][][]float64{}
	for i, runs := range figures {
		for _, of := range runs {
			for _, f := range of {
				if values[f.Name] == nil {
					values[f.Name] = make([][]float64, len(figures))
					out = append(out, Row{Name: f.Name, Unit: f.Unit})
				}
				values[f.Name][i] = append(values[f.Name][i], f.Value)
			}
		}
	}
	for r := range out {
		for _, v := range values[out[r].Name] {
			c := Cell{Runs: len(v)}
			if len(v) > 0 {
				c.Median, c.Min, c.Max = stats.Median(v).Value, slices.Min(v), slices.Max(v)
			}
			out[r].Cells = append(out[r].Cells, c)
		}
		_, out[r].Apart = apart(out[r].Cells[0], out[r].Cells[len(figures)-1])
	}
	return out
}

// apart tells whether the runs of two cells do not overlap, and how often chance alone does
// that to like runs.
func apart(a, b Cell) (chance float64, ok bool) {
	if a.Runs < 2 || b.Runs < 2 || a.Min <= b.Max && b.Min <= a.Max {
		return 0, false
	}
	ways := 1.0 // to choose the runs of a
	for i := range a.Runs {
		ways *= float64(a.Runs+b.Runs-i) / float64(i+1)
	}
	return 2 / math.Round(ways), true
}
