package slo

import "slices"

// Names of the samples of processes, as package observe/usage writes them and
// Prometheus' client libraries serve them.
const (
	cpuSeconds   = "process_cpu_seconds_total"
	residentSize = "process_resident_memory_bytes"
	peakSize     = "process_peak_resident_memory_bytes"
	startTime    = "process_start_time_seconds" // as the process says itself
)

// cpu returns the CPU seconds that a target's process used between the run's
// begin and its end; 0 where nothing is known.
func (f *facts) cpu(target string) float64 {
	var sum float64
	for _, s := range f.Series.Select(target, cpuSeconds, nil) {
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

// peak returns the largest resident size of a target's process in bytes; 0
// where nothing is known.
func (f *facts) peak(target string) float64 {
	var most float64
	for _, name := range []string{residentSize, peakSize} {
		for _, s := range f.Series.Select(target, name, nil) {
			if v, ok := s.Max(0, f.End); ok {
				most = max(most, v)
			}
		}
	}
	return most
}

// components returns the names of the plane's processes that were measured, in
// the plane's order: those of the manifest, or for a cluster that was not
// started here whatever was measured beside windtunnel.
func (j *judging) components() []string {
	var out []string
	for _, c := range j.m.Plane.Components {
		if len(j.f.Series.Select(c.Name, cpuSeconds, nil)) > 0 {
			out = append(out, c.Name)
		}
	}
	if len(j.m.Plane.Components) > 0 {
		return out
	}
	for _, name := range j.f.Series.Targets(cpuSeconds) {
		if name != Instrument && !slices.Contains(j.subjects(), name) {
			out = append(out, name)
		}
	}
	return out
}

// subjects returns the names of the programs that were tested on the plane.
func (j *judging) subjects() []string {
	var out []string
	for _, s := range j.m.Subjects {
		out = append(out, s.Name)
	}
	return out
}

// subjectCPU returns the CPU seconds of the subjects.
func (j *judging) subjectCPU() (sum float64) {
	for _, name := range j.subjects() {
		sum += j.f.cpu(name)
	}
	return sum
}

// planeCPU returns the CPU seconds of all of the plane's processes.
func (j *judging) planeCPU() (sum float64) {
	for _, name := range j.components() {
		sum += j.f.cpu(name)
	}
	return sum
}
