package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds on the instrument itself (rule of measurement 4). Beyond them the
// verdict is unknown.
const (
	// TooLateShare is the share of the load's calls that may be sent more than
	// Late after they were due. At 1 % a 99th percentile begins to hold the
	// instrument's own delay.
	TooLateShare = 0.01
	// TooLateStage is how late the 99th percentile of the fleet's own calls
	// may be sent: a fifth of the time that the official objective gives a pod.
	TooLateStage = time.Second
	// leaseSlack is the share of its lease's duration by which the 99th
	// percentile of renewals may be late: a renewal comes due after a quarter,
	// so that half of the lease is left when one such comes in.
	leaseSlack = 4
)

// TooManyHoles is the share of a component's scrapes that may fail or be late.
// Beyond it what its gauges did is not known.
const TooManyHoles = 0.2

// fewScrapes is how many scrapes say nothing of a share.
const fewScrapes = 10

// instrument is windtunnel itself: what it cost, how late it was, what it did
// not see.
type instrument struct {
	f                *run.Facts
	m                record.Manifest
	usage            usage
	stages, renewals *stats.Durations // how late the fleet was
}

func newInstrument(r *run.Run, u usage) *instrument {
	i := &instrument{f: r.Facts, m: r.Manifest, usage: u}
	i.stages, i.renewals = fleetLateness(r.Facts)
	return i
}

// measureSelf is what the instrument cost, how late it was and what it did not see.
func (i *instrument) measureSelf() Self {
	own, _ := i.f.CPUSeconds(run.Instrument)
	out := Self{CPUSeconds: own, MaxRSSBytes: uint64(i.f.PeakMemory(run.Instrument)),
		RecordsStalledSeconds: i.f.Stalled()}
	for _, c := range i.f.Calls {
		if c.Source == run.Load {
			out.LateCalls += c.Late
			out.MaxLatenessSeconds = max(out.MaxLatenessSeconds, c.Lateness.Max().Value)
		}
	}
	if plane := i.usage.planeCPU(); plane > 0 {
		out.CPUShare = out.CPUSeconds / plane
	}
	memory := 0.0
	for _, name := range i.usage.measuredComponents() {
		memory += i.f.PeakMemory(name)
	}
	if memory > 0 {
		out.MemoryShare = float64(out.MaxRSSBytes) / memory
	}
	out.WatchGaps = len(i.f.EventsOf(record.EventWatchGap))
	out.WatchLagP99Seconds, out.WatchLagMaxSeconds = i.watchLag()
	for target := range listTargets(i.f) {
		lost, late, _ := countScrapes(i.f, target)
		out.ScrapesLost, out.ScrapesLate = out.ScrapesLost+lost, out.ScrapesLate+late
	}
	return out
}

// watchLag is the indicator watch-latency; nil where it was not measured, which
// is not the same as a watch that was never late.
func (i *instrument) watchLag() (p99, most *float64) {
	x, _ := sli.Find("watch-latency")
	figures, _ := (indicators{i.f}).readFigures(x, nil, nil)
	for _, g := range figures {
		tail, _ := g.estimateStatistic(stats.Name(0.99))
		high, _ := g.estimateStatistic("max")
		low, up := roundFigure(tail.Value), roundFigure(high.Value)
		return &low, &up
	}
	return nil, nil
}

// countScrapes returns how many scrapes of a target failed in the run, how many were
// not taken in time, and how many there should have been. The interval is what
// most of them were apart.
func countScrapes(f *run.Facts, target string) (lost, late, want int) {
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

// missingScrapes names the components of which too few scrapes came. Where a fault was
// made on purpose they may be its doing.
func (i *instrument) missingScrapes() []string {
	if len(i.f.EventsOf(record.EventFault)) > 0 {
		return nil
	}
	var out []string
	for _, target := range slices.Sorted(maps.Keys(listTargets(i.f))) {
		lost, late, want := countScrapes(i.f, target)
		if want >= fewScrapes && float64(lost+late) > TooManyHoles*float64(want) {
			out = append(out, fmt.Sprintf("The metrics of %s are full of holes: of %d scrapes %d failed and %d were too late, at most %.0f %% may be missing.",
				target, want, lost, late, 100*TooManyHoles))
		}
	}
	return out
}

// listTargets returns all that was scraped, or should have been.
func listTargets(f *run.Facts) map[string]bool {
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

// tooSlow says where windtunnel itself was too slow to be believed.
func (i *instrument) tooSlow() []string {
	var out []string
	total, late := 0, 0
	for _, c := range i.f.Calls {
		if c.Source == run.Load {
			total, late = total+c.Count(), late+c.Late
		}
	}
	if late > 1 && float64(late) > TooLateShare*float64(total) { // one call is no share
		out = append(out, fmt.Sprintf("windtunnel could not keep its own pace: %d of the load's %s (%.1f %%) %s sent more than %v late, at most %.0f %% may be. Latencies from this run are not reliable: give windtunnel more CPU, or ask for a lower rate.",
			late, unit.Count(total, "calls"), 100*float64(late)/float64(total), unit.Verb(late, "was", "were"), record.Late, 100*TooLateShare))
	}
	out = append(out, i.missingScrapes()...)
	if e := i.stages.Quantile(0.99); e.Value > TooLateStage.Seconds() {
		out = append(out, fmt.Sprintf("The simulated nodes were too slow: 1 %% of their calls were sent more than %.3g s after they were due, at most %v may pass. Part of the pods' startup is windtunnel's own delay.",
			e.Value, TooLateStage))
	}
	bound := i.m.Fleet.LeaseSeconds / leaseSlack
	if e := i.renewals.Quantile(0.99); bound > 0 && e.Value > bound {
		out = append(out, fmt.Sprintf("The simulated nodes renewed their leases too late: 1 %% of renewals were sent more than %.3g s after they were due, at most a quarter of the lease, %.3g s, may pass. Nodes may have been taken for dead because of windtunnel.",
			e.Value, bound))
	}
	return out
}

// fleetLateness returns how late the fleet sent what its stages asked for, and
// how late its lease renewals.
func fleetLateness(f *run.Facts) (stages, renewals *stats.Durations) {
	var stage, renewal []*stats.Durations
	for _, c := range f.Calls {
		switch {
		case c.Source != run.Fleet || c.Verb == "get" || c.Verb == "list" || c.Verb == "watch":
		case c.Resource == run.Leases && c.Verb == "update":
			renewal = append(renewal, &c.Lateness)
		case c.Resource != run.Leases:
			stage = append(stage, &c.Lateness)
		}
	}
	return stats.Merged(stage), stats.Merged(renewal)
}

// setMeasures says how late the fleet was.
func (i *instrument) setMeasures(m Measures) {
	setLateness(m, "fleet_lateness", i.stages)
	setLateness(m, "lease_lateness", i.renewals)
}

func setLateness(m Measures, name string, d *stats.Durations) {
	if d.Len() > 0 {
		m.set(name+"_p99_seconds", d.Quantile(0.99).Value, "seconds")
		m.set(name+"_max_seconds", d.Max().Value, "seconds")
	}
}
