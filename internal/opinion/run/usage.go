package run

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Instrument is the target of windtunnel's own samples.
const Instrument = "windtunnel"

// Names of the samples of processes, as package usage writes them and
// Prometheus' client libraries serve them.
const (
	CPUSeries       = "process_cpu_seconds_total"
	MemorySeries    = "process_resident_memory_bytes"
	peakSize        = "process_peak_resident_memory_bytes"
	StalledSeries   = "windtunnel_records_stalled_seconds_total" // that windtunnel waited for the disk of its records
	throttledSeries = "cgroup_cpu_throttled_seconds_total"       // of components with a CPU limit
)

// CPUSeconds returns the CPU seconds that a target's process used between the run's
// begin and its end. They are not known of a run that did not begin, or in which no
// two samples are a sampling interval apart. Windtunnel's own are those of its
// workers, too.
func (f *Facts) CPUSeconds(target string) (sum float64, known bool) {
	if !f.sampledFor(target, peakOver) {
		return 0, false
	}
	for _, s := range f.Series.Select(target, CPUSeries, nil) {
		if s.Len() == 0 {
			continue
		}
		// A process older than its first sample: count from that sample on.
		first, _ := s.Sample(0)
		if rise, ok := s.Increase(max(f.Begin, first), f.End); ok {
			sum += rise
		}
	}
	if target == Instrument {
		for _, w := range f.Workers {
			sum += w.CPUSeconds
		}
	}
	return sum, true
}

// sampledFor tells whether the CPU time of a target was sampled over a part of the run
// that is at least so long.
func (f *Facts) sampledFor(target string, least time.Duration) bool {
	var first, last clock.Time
	any := false
	for _, s := range f.Series.Select(target, CPUSeries, nil) {
		for _, times := range [][]clock.Time{f.Series.Metered(target), f.Series.Scrapes(target)} {
			for _, at := range times {
				if at > f.End || s.Len() == 0 {
					break
				}
				if !any {
					first, any = at, true
				}
				first, last = min(first, at), max(last, at)
			}
		}
	}
	return f.Began() && any && last.Sub(max(first, f.Begin)) >= least
}

// peakOver is how long a peak of CPU lasts at least: the interval of samples, nearly.
const peakOver = 900 * time.Millisecond

// PeakCPU returns the most cores that a target's process used at a time, of the
// machine's cores (0 where their number is not known); 0 where nothing is known.
// The time of a sample is read beside the counter: a sampler that waits for a core
// between the two, or looks twice in a row after it was late, would divide by less
// time than the CPU was used in. So a peak lasts about a second, and no more than
// the machine has is believed.
func (f *Facts) PeakCPU(target string, cores float64) float64 {
	var most float64
	for _, s := range f.Series.Select(target, CPUSeries, nil) {
		first := 0
		for last := 1; last < s.Len(); last++ {
			to, _ := s.Sample(last)
			for next, _ := s.Sample(first + 1); first+1 < last && to.Sub(next) >= peakOver; next, _ = s.Sample(first + 1) {
				first++
			}
			from, _ := s.Sample(first)
			if rise, ok := s.Increase(from, to); ok && to.Sub(from) >= peakOver {
				most = max(most, rise/to.Sub(from).Seconds())
			}
		}
	}
	if cores > 0 {
		most = min(most, cores)
	}
	return most
}

// PeakMemory returns the largest resident size of a target's process from the
// stream's begin to the run's end, in bytes; 0 where nothing is known. Those of the processes
// of a component are added up, though they were not reached at one time.
func (f *Facts) PeakMemory(target string) (sum float64) {
	most := map[string]float64{}
	for _, name := range []string{MemorySeries, peakSize} {
		for _, s := range f.Series.Select(target, name, nil) {
			if v, ok := s.Max(0, f.End); ok {
				most[s.Target] = max(most[s.Target], v)
			}
		}
	}
	for _, v := range most {
		sum += v
	}
	return sum
}

// Throttled returns for how many seconds a component's threads were held back
// by its CPU limit during the run.
func (f *Facts) Throttled(target string) (seconds float64, known bool) {
	for _, s := range f.Series.Select(target, throttledSeries, nil) {
		if rise, ok := s.Increase(f.Begin, f.End); ok {
			seconds, known = seconds+rise, true
		}
	}
	return seconds, known
}

// PerPod returns a cost's share of each pod that ran; NaN where none did.
func (f *Facts) PerPod(cost float64) float64 {
	ran := 0
	for _, l := range f.Pods(nil) {
		ran += l.Reached(record.PhaseRunning)
	}
	if ran == 0 {
		return math.NaN()
	}
	return cost / float64(ran)
}

// Stalled is how long windtunnel waited for the disk that its records go to, in
// seconds, during the run.
func (f *Facts) Stalled() (sum float64) {
	for _, s := range f.Series.Select(Instrument, StalledSeries, nil) {
		if rise, ok := s.Increase(f.Begin, f.End); ok {
			sum += rise
		}
	}
	return sum
}
