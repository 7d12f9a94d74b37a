package run

import (
	"math"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Instrument is the target of windtunnel's own samples.
const Instrument = "windtunnel"

// Names of the samples of processes, as package observe/usage writes them and
// Prometheus' client libraries serve them.
const (
	CPUSeries       = "process_cpu_seconds_total"
	MemorySeries    = "process_resident_memory_bytes"
	peakSize        = "process_peak_resident_memory_bytes"
	throttledSeries = "cgroup_cpu_throttled_seconds_total" // of components with a CPU limit
)

// CPUSeconds returns the CPU seconds that a target's process used between the run's
// begin and its end; 0 where nothing is known.
func (f *Facts) CPUSeconds(target string) float64 {
	var sum float64
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
	return sum
}

// PeakMemory returns the largest resident size of a target's process from the
// stream's begin to the run's end, in bytes; 0 where nothing is known.
func (f *Facts) PeakMemory(target string) float64 {
	var most float64
	for _, name := range []string{MemorySeries, peakSize} {
		for _, s := range f.Series.Select(target, name, nil) {
			if v, ok := s.Max(0, f.End); ok {
				most = max(most, v)
			}
		}
	}
	return most
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
