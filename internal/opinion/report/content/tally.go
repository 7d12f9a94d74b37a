package content

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// tally arranges a run's facts for drawing.
type tally struct {
	run   *run.Run
	facts *run.Facts
	span  span // of the stream, boot and clean-up included
	base  grid // counts are drawn from this
	heat  grid // heat maps are drawn on this
	steps []Step
	usage *usage
}

func newTally(r *run.Run) *tally {
	f := r.Facts
	t := &tally{run: r, facts: f, usage: newUsage(f.Series)}
	width := clock.Time(f.Timeline.Width)
	t.span = span{f.First, f.Last}
	t.base = newGrid(span{f.First / width * width, f.Last}, baseBins, f.Timeline.Width)
	t.heat = t.heatGrid()
	parts := f.Parts()
	for _, s := range f.Steps {
		t.steps = append(t.steps, t.newStep(s, parts))
	}
	return t
}

// Step is one step of the scenario as it went.
type Step struct {
	run.Step
	Calls    int                 // load calls that fell due
	OK       int                 // of those, answered with success
	Parts    []run.Part          // that it upgraded
	Writes   *consistency.Report // what the answers to a probe show; nil: it is none
	Achieved float64             // answers with success per second, as in the verdict's measures; 0 where that took no time
	firstDue clock.Time
}

func (t *tally) newStep(s run.Step, parts []run.Part) Step {
	out := Step{Step: s}
	for _, p := range parts {
		if p.Step == s.Name {
			out.Parts = append(out.Parts, p)
		}
	}
	if accesses, probes := t.facts.Accesses[s.Name]; probes {
		writes := consistency.Check(accesses)
		out.Writes = &writes
	}
	var due, answered run.Span
	for _, c := range t.facts.Calls {
		if c.Source == run.Load && c.Op.Step == s.Name {
			out.Calls += c.Count()
			out.OK += c.Outcomes[record.OK]
			due.Join(c.Due)
			answered.Join(c.Answered)
		}
	}
	if seconds := answered.Seconds(); out.OK > 1 && seconds > 0 {
		out.Achieved = float64(out.OK-1) / seconds
	}
	out.firstDue = due.First
	return out
}

// Took is how long the step lasted, in seconds.
func (s Step) Took() float64 { return s.To.Sub(s.From).Seconds() }

// sumBins sums the bins of a timeline, which are of whole parts of the grid's.
func (t *tally) sumBins(fine []float64) []float64 {
	out := make([]float64, t.base.n)
	k, first := t.binRatio()
	for i, v := range fine {
		if v != 0 {
			out[min(max(i-first, 0)/k, t.base.n-1)] += v
		}
	}
	return out
}

// averageBins is rebin of what is an average over each bin.
func (t *tally) averageBins(fine []float64) []float64 {
	out := t.sumBins(fine)
	k, _ := t.binRatio()
	for i := range out {
		out[i] /= float64(k)
	}
	return out
}

// binRatio says how many bins of the timeline one of the grid has, and which is the
// first.
func (t *tally) binRatio() (k, first int) {
	width := t.facts.Timeline.Width
	return max(1, int(t.base.width/width)), int(time.Duration(t.base.from) / width)
}

// heatGrid returns the finest grid whose bins are whole columns of every map.
func (t *tally) heatGrid() grid {
	finest := t.facts.Timeline.Width
	for _, h := range t.facts.Heat {
		finest = max(finest, h.Width)
	}
	width := clock.Time(finest)
	g := newGrid(span{t.span.from / width * width, t.span.to}, heatBins, max(t.base.width, finest))
	g.from = g.from / clock.Time(g.width) * clock.Time(g.width)
	g.n = int(t.span.to.Sub(g.from)/g.width) + 1
	return g
}

// heatCells are the counts of a map by column*run.Buckets+bucket.
func heatCells(g grid, h *run.Heat) map[int]int {
	out := map[int]int{}
	if h.Width == 0 {
		return out
	}
	first := int(time.Duration(g.from) / g.width)
	for i, column := range h.Rebin(g.width) {
		for b, n := range column {
			if n > 0 {
				out[min(max(i-first, 0), g.n-1)*run.Buckets+b] += int(n)
			}
		}
	}
	return out
}

// never is the time of a phase that was not seen.
const never = clock.Time(math.MinInt64)
