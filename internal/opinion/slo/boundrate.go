package slo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// boundWindow is how long a stretch is in which bound pods are counted, unless
// the objective says otherwise: ClusterLoader2's SchedulingThroughput has the
// same.
const boundWindow = 5 * time.Second

// boundRate judges how many pods a second the scheduler bound, in stretches of
// one length from the first pod's creation to the last one's binding. Its
// statistics are of those stretches.
func (c records) boundRate(r *Result, o *scenario.Objective) {
	r.Unit = "1/s"
	window := boundWindow
	if text := o.Labels["window"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			setUnmeasured(r, fmt.Sprintf("window %q is not a time above 0s", text))
			return
		}
		window = d
	}
	all := inCluster(c.f.Pods(groupsOf(o.Labels)), o.Labels)
	if begin, end, ok := bindingOf(all); ok && end.Sub(begin)/window >= maxWindows {
		setUnmeasured(r, fmt.Sprintf("window %s is too short for the %s in which pods were bound: %d of them are the most", window, end.Sub(begin), maxWindows))
		return
	}
	rates := boundRates(all, window)
	holdAgainstThreshold(r, ofRates(rates, r.Statistic), false)
}

// maxWindows is in how many stretches of time pods are counted.
const maxWindows = 1_000_000

// bindingOf is the time from the first pod's creation to the last one's binding.
func bindingOf(all []*run.Lifecycles) (from, to clock.Time, ok bool) {
	var begin, end run.Span
	for _, l := range all {
		begin.Join(l.Span(record.PhaseCreated))
		end.Join(l.Span(record.PhaseBound))
	}
	return begin.First, end.Last, begin.Any && end.Any && end.Last >= begin.First
}

// BoundRates returns how many pods of some groups were bound per second in each
// window of time, smallest first; of all groups when there are none. Where there
// would be more than a million windows there are none.
func BoundRates(f *run.Facts, groups []string, window time.Duration) []float64 {
	return boundRates(f.Pods(groups), window)
}

func boundRates(all []*run.Lifecycles, window time.Duration) []float64 {
	from, to, ok := bindingOf(all)
	if !ok || to.Sub(from)/window >= maxWindows {
		return nil
	}
	counts := make([]float64, to.Sub(from)/window+1)
	for _, l := range all {
		for row := range l.Len() {
			// Of a pod whose creation was not seen it is not known when.
			if t, ok := l.At(row, record.PhaseBound); ok && t >= from {
				counts[t.Sub(from)/window] += 1 / window.Seconds()
			}
		}
	}
	slices.Sort(counts)
	return counts
}

// ofRates is a statistic of sorted rates; there is no interval, since
// neighbouring stretches depend on each other.
func ofRates(rates []float64, statistic string) stats.Estimate {
	e := stats.Estimate{Samples: len(rates), Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	if len(rates) == 0 {
		return e
	}
	q, ok := stats.Parse(statistic)
	switch {
	case statistic == "mean":
		for _, v := range rates {
			e.Value += v / float64(len(rates))
		}
	case ok:
		e.Value = rates[max(1, int(math.Ceil(q*float64(len(rates))-1e-9)))-1]
	default:
		e.Value = rates[len(rates)-1]
	}
	e.Low, e.High = e.Value, e.Value
	return e
}
