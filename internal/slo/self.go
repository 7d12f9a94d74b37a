package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// TooManyHoles is the share of a component's scrapes that may fail or be late.
// Beyond it what its gauges did is not known.
const TooManyHoles = 0.2

// fewScrapes is how many scrapes say nothing of a share.
const fewScrapes = 10

// self is what the instrument cost, how late it was and what it did not see.
func (j *judging) self() Self {
	out := Self{CPUSeconds: j.f.cpu(Instrument), MaxRSSBytes: uint64(j.f.peak(Instrument))}
	for _, c := range j.f.Calls {
		if c.Source == run.Load {
			out.LateCalls += c.Late
			out.MaxLatenessSeconds = max(out.MaxLatenessSeconds, c.Lateness.Max().Value)
		}
	}
	if plane := j.planeCPU(); plane > 0 {
		out.CPUShare = out.CPUSeconds / plane
	}
	memory := 0.0
	for _, name := range j.components() {
		memory += j.f.peak(name)
	}
	if memory > 0 {
		out.MemoryShare = float64(out.MaxRSSBytes) / memory
	}
	out.WatchGaps = len(j.f.EventsOf(record.EventWatchGap))
	out.WatchLagP99Seconds, out.WatchLagMaxSeconds = j.watchLag()
	for target := range j.f.targets() {
		lost, late, _ := j.f.scrapes(target)
		out.ScrapesLost, out.ScrapesLate = out.ScrapesLost+lost, out.ScrapesLate+late
	}
	return out
}

// watchLag is the indicator watch-latency; nil where it was not measured, which
// is not the same as a watch that was never late.
func (j *judging) watchLag() (p99, most *float64) {
	x, _ := sli.Find("watch-latency")
	figures, _ := j.figures(x, nil, nil)
	for _, g := range figures {
		tail, _ := g.estimate(stats.Name(0.99))
		high, _ := g.estimate("max")
		low, up := rounded(tail.Value), rounded(high.Value)
		return &low, &up
	}
	return nil, nil
}

// scrapes returns how many scrapes of a target failed in the run, how many were
// not taken in time, and how many there should have been. The interval is what
// most of them were apart.
func (f *facts) scrapes(target string) (lost, late, want int) {
	lost = f.NotScraped[target]
	var gaps []float64
	times := f.Series.Scrapes(target)
	for i := 1; i < len(times); i++ {
		if times[i-1] >= f.Begin && times[i] <= f.End {
			gaps = append(gaps, times[i].Sub(times[i-1]).Seconds())
		}
	}
	if len(gaps) == 0 {
		return lost, 0, 0 // it could not be scraped at all, which is said elsewhere
	}
	every := stats.Median(gaps).Value
	for _, gap := range gaps {
		if every > 0 {
			late += max(0, int(math.Round(gap/every))-1)
		}
	}
	late = max(0, late-lost) // a failed one leaves a gap as well
	return lost, late, lost + late + len(gaps)
}

// holes names the components of which too few scrapes came. Where a fault was
// made on purpose they may be its doing.
func (j *judging) holes() []string {
	if len(j.f.EventsOf(record.EventFault)) > 0 {
		return nil
	}
	var out []string
	for _, target := range slices.Sorted(maps.Keys(j.f.targets())) {
		lost, late, want := j.f.scrapes(target)
		if want >= fewScrapes && float64(lost+late) > TooManyHoles*float64(want) {
			out = append(out, fmt.Sprintf("The metrics of %s are full of holes: of %d scrapes %d failed and %d were too late, at most %.0f %% may be missing.",
				target, want, lost, late, 100*TooManyHoles))
		}
	}
	return out
}

// targets are all that was scraped, or should have been.
func (f *facts) targets() map[string]bool {
	out := map[string]bool{}
	for name := range f.NotScraped {
		out[name] = true
	}
	for _, name := range f.Series.Names() {
		for _, s := range f.Series.Named(name) {
			out[s.Target] = true
		}
	}
	return out
}
