package content

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// sampleEvery is about how often CPU and memory are sampled.
const sampleEvery = time.Second

// usage holds what each component took, by its name.
type usage struct {
	cpu, mem map[string][]point
}

type point struct {
	at    clock.Time
	value float64
}

func newUsage(all *series.Store) *usage {
	return &usage{pointsOf(all, run.CPUSeries), pointsOf(all, run.MemorySeries)}
}

// pointsOf returns the samples of a metric by target, in the order of time.
func pointsOf(all *series.Store, name string) map[string][]point {
	out := map[string][]point{}
	for _, s := range all.Named(name) {
		for i := range s.Len() {
			at, v := s.Sample(i)
			out[s.Target] = append(out[s.Target], point{at, v})
		}
	}
	for _, points := range out {
		slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	}
	return out
}

// ratesOf turns a counter into its rise per second.
func ratesOf(counter []point) []point {
	var out []point
	for i := 1; i < len(counter); i++ {
		a, b := counter[i-1], counter[i]
		rise := b.value - a.value
		if rise < 0 { // the process was restarted and counts from 0
			rise = b.value
		}
		if d := b.at.Sub(a.at).Seconds(); d > 0 {
			out = append(out, point{b.at, rise / d})
		}
	}
	return out
}

// atMost bounds rates of CPU by the cores of the machine, where their number is
// known, as run.PeakCPU does: a sample that came late divides by too little time.
func atMost(all []point, cores float64) []point {
	for i := range all {
		if cores > 0 {
			all[i].value = min(all[i].value, cores)
		}
	}
	return all
}

// samplePoints draws points over a grid: each bin has the mean, the least and the
// greatest of its points. A bin without one has the next point's value when ahead
// (a rate holds for the time before it), else the last one's.
func samplePoints(name string, g grid, points []point, ahead bool) Line {
	line := Line{Name: name, Limit: Num(math.NaN())}
	spread := false
	i, last := 0, math.NaN()
	for b := range g.n {
		sum, n, low, high := 0.0, 0, math.Inf(1), math.Inf(-1)
		for ; i < len(points) && (g.bin(points[i].at) <= b); i++ {
			last = points[i].value
			sum, n, low, high = sum+last, n+1, min(low, last), max(high, last)
		}
		mean := sum / float64(n)
		if n == 0 {
			mean = fillGap(points, i, last, ahead)
			low, high = mean, mean
		}
		spread = spread || high > low
		line.Mean, line.Low, line.High = append(line.Mean, Num(mean)), append(line.Low, Num(low)), append(line.High, Num(high))
	}
	if !spread {
		line.Low, line.High = nil, nil
	}
	return line
}

// fillGap is the value of a bin without a point: none before the first and after the last.
func fillGap(points []point, next int, last float64, ahead bool) float64 {
	switch {
	case next == 0 || next >= len(points) && ahead:
		return math.NaN()
	case ahead:
		return points[next].value
	default:
		return last
	}
}

// ComponentRow is what one component took from the run's begin, when plane and
// fleet were ready, to its end, as package run defines it. The peak of CPU is of
// all that was recorded.
type ComponentRow struct {
	Name        string
	CPUSeconds  float64 // as all of these NaN where it is not known
	Mean, Peak  float64 // cores
	PerPod      float64 // CPU seconds per pod that ran; NaN without
	Memory      float64 // greatest resident size, bytes
	CPULimit    float64 // cores, 0 = none in force
	MemoryLimit float64 // bytes, 0 = none in force
	Throttled   float64 // seconds for which its threads waited for its CPU limit; NaN without one
	cpu, mem    []point
}

func (t *tally) componentRows(facts []record.ComponentFact) []ComponentRow {
	limits := map[string]record.ComponentFact{}
	for _, f := range facts {
		limits[f.Name] = f
	}
	var out []ComponentRow
	for _, name := range t.sampledComponents(facts) {
		seconds, known := t.facts.CPUSeconds(name)
		if !known {
			seconds = math.NaN()
		}
		row := ComponentRow{Name: name, CPUSeconds: seconds, PerPod: t.facts.PerPod(seconds), Throttled: math.NaN(),
			Memory: orNaN(t.facts.PeakMemory(name)), Mean: math.NaN(), mem: t.usage.mem[name]}
		if counter := t.usage.cpu[name]; counter != nil {
			row.cpu = atMost(ratesOf(counter), float64(t.run.Manifest.Machine.Cores))
			if d := t.facts.End.Sub(max(t.facts.Begin, counter[0].at)).Seconds(); d > 0 {
				row.Mean = seconds / d
			}
		}
		if row.Peak = t.facts.PeakCPU(name, float64(t.run.Manifest.Machine.Cores)); !known {
			row.Peak = orNaN(row.Peak)
		}
		if held, known := t.facts.Throttled(name); known {
			row.Throttled = held
		}
		if f := limits[name]; f.Limited {
			row.CPULimit, row.MemoryLimit = f.CPULimit, float64(f.MemoryLimit)
		}
		out = append(out, row)
	}
	if whole, limited := t.run.Manifest.Plane.Whole(); limited {
		out = slices.Insert(out, min(len(out), len(t.run.Manifest.Plane.Components)), t.planeRow(whole, out))
	}
	return out
}

// orNaN makes NaN of a 0 that says that nothing is known.
func orNaN(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// planeRow is what the plane's components took together, where they share limits.
func (t *tally) planeRow(whole record.ComponentFact, rows []ComponentRow) ComponentRow {
	out := ComponentRow{Name: "the plane as a whole", Throttled: math.NaN()}
	var cpu, mem [][]point
	for _, r := range rows {
		if slices.ContainsFunc(t.run.Manifest.Plane.Components, func(c record.ComponentFact) bool { return c.Name == r.Name }) {
			out.CPUSeconds, out.Mean = out.CPUSeconds+r.CPUSeconds, out.Mean+r.Mean
			cpu, mem = append(cpu, r.cpu), append(mem, r.mem)
		}
	}
	out.PerPod = t.facts.PerPod(out.CPUSeconds)
	most := float64(t.run.Manifest.Machine.Cores)
	if whole.Limited && whole.CPULimit > 0 { // samples of two components are not of one moment
		most = min(cmp.Or(most, whole.CPULimit), whole.CPULimit)
	}
	out.cpu, out.mem = atMost(t.sumPoints(cpu, true), most), t.sumPoints(mem, false)
	for _, p := range out.cpu {
		out.Peak = max(out.Peak, p.value)
	}
	for _, p := range out.mem {
		out.Memory = max(out.Memory, p.value)
	}
	if held, known := t.facts.Throttled(record.WholePlane); known {
		out.Throttled = held
	}
	if whole.Limited {
		out.CPULimit, out.MemoryLimit = whole.CPULimit, float64(whole.MemoryLimit)
	}
	return out
}

// sumPoints adds up what several components used at a time, second by second.
func (t *tally) sumPoints(parts [][]point, ahead bool) []point {
	g := newGrid(t.span, baseBins, sampleEvery)
	sums, known := make([]float64, g.n), make([]bool, g.n)
	for _, points := range parts {
		for i, v := range samplePoints("", g, points, ahead).Mean {
			if !math.IsNaN(float64(v)) {
				sums[i], known[i] = sums[i]+float64(v), true
			}
		}
	}
	var out []point
	for i, sum := range sums {
		if known[i] {
			out = append(out, point{g.from.Add(time.Duration(i)*g.width + g.width/2), sum})
		}
	}
	return out
}

// sampledComponents names what was sampled: the plane's components in the manifest's
// order, then others by name, windtunnel last.
func (t *tally) sampledComponents(facts []record.ComponentFact) []string {
	rank := map[string]int{run.Instrument: len(facts) + 1}
	for i, f := range facts {
		rank[f.Name] = i
	}
	seen := maps.Clone(t.usage.cpu)
	maps.Copy(seen, t.usage.mem)
	place := func(name string) int {
		if r, ok := rank[name]; ok {
			return r
		}
		return len(facts)
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}

// usageCharts draws CPU and memory of every component over time, with what
// there is of either on this machine.
func (t *tally) usageCharts(r *Report) []TimeChart {
	rows, machine := r.Components, r.Manifest.Machine
	if len(rows) == 0 {
		return nil
	}
	g := newGrid(t.span, chartBins, sampleEvery)
	cpu, mem := newTimeChart(g, "cpu", "CPU", "cores"), newTimeChart(g, "memory", "Memory", "bytes")
	limit := func(v float64) Num {
		if v == 0 {
			v = math.NaN()
		}
		return Num(v)
	}
	if machine.Cores > 0 {
		cpu.Bound = &Bound{"all cores of the machine", Num(machine.Cores)}
		mem.Bound = &Bound{"all memory of the machine", Num(machine.MemoryBytes)}
	}
	for _, r := range rows {
		if len(r.cpu) > 0 {
			line := samplePoints(r.Name, g, r.cpu, true)
			line.Limit = limit(r.CPULimit)
			cpu.Lines = append(cpu.Lines, line)
		}
		if len(r.mem) > 0 {
			line := samplePoints(r.Name, g, r.mem, false)
			line.Limit = limit(r.MemoryLimit)
			mem.Lines = append(mem.Lines, line)
		}
	}
	return []TimeChart{cpu, mem}
}
