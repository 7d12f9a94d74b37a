package slo

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// startTime is when a process began, as it says itself.
const startTime = "process_start_time_seconds"

// usage is what plane, subjects and windtunnel took of the machine.
type usage struct {
	f *run.Facts
	m record.Manifest
}

// setMeasures says what each process cost, in all and for each pod that ran.
func (u usage) setMeasures(m Measures) {
	cost := func(name string, cpu float64) {
		m.set(joinKey("cpu_seconds", name), cpu, "seconds")
		m.set(joinKey("cpu_ms_per_pod", name), u.f.PerPod(1000*cpu), "ms/pod")
	}
	for _, name := range slices.Concat(u.measuredComponents(), u.componentsOfSeveral(), u.measuredSubjects(), []string{run.Instrument}) {
		if len(u.f.Series.Select(name, run.CPUSeries, nil)) == 0 {
			continue
		}
		if seconds, known := u.f.CPUSeconds(name); known {
			cost(name, seconds)
		}
		m.set(joinKey("peak_rss_bytes", name), u.f.PeakMemory(name), "bytes")
		if held, ok := u.f.Throttled(name); ok {
			m.set(joinKey("cpu_throttled_seconds", name), held, "seconds")
		}
	}
	plane := u.planeCPU()
	if plane == 0 {
		return
	}
	cost(record.WholePlane, plane)
	if held, ok := u.f.Throttled(record.WholePlane); ok {
		m.set(joinKey("cpu_throttled_seconds", record.WholePlane), held, "seconds")
	}
	if own, known := u.f.CPUSeconds(run.Instrument); known {
		m.set("instrument_cpu_share", own/plane, "ratio")
	}
}

// componentsOfSeveral returns the components that have several processes, whose sums are
// measures, too.
func (u usage) componentsOfSeveral() (out []string) {
	for _, process := range u.measuredComponents() {
		if of, _ := component.Of(process); of != process && !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	return out
}

// measuredComponents returns the names of the plane's processes that were measured, in
// the plane's order: those of the manifest, or for a cluster that was not
// started here whatever was measured beside windtunnel.
func (u usage) measuredComponents() []string {
	var out []string
	for _, c := range u.m.Plane.Components {
		if len(u.f.Series.Select(c.Name, run.CPUSeries, nil)) > 0 {
			out = append(out, c.Name)
		}
	}
	if len(u.m.Plane.Components) > 0 {
		return out
	}
	for _, name := range u.f.Series.Targets(run.CPUSeries) {
		if name != run.Instrument && !slices.Contains(u.measuredSubjects(), name) {
			out = append(out, name)
		}
	}
	return out
}

// measuredSubjects returns the names of the programs that were tested on the plane.
func (u usage) measuredSubjects() []string {
	var out []string
	for _, s := range u.m.Subjects {
		out = append(out, s.Name)
	}
	return out
}

// planeCPU returns the CPU seconds of all of the plane's processes.
func (u usage) planeCPU() (sum float64) {
	for _, name := range u.measuredComponents() {
		seconds, _ := u.f.CPUSeconds(name)
		sum += seconds
	}
	return sum
}

const hostSeconds = "host_cpu_seconds_total"

// host is what the machine's cores did during the run, in seconds of all cores.
type host struct{ total, busy, steal float64 }

// readHost reads it from the samples of package usage; nothing where there are none.
func (u usage) readHost() (h host) {
	for _, s := range u.f.Series.Select("", hostSeconds, nil) {
		rise, _ := s.Increase(u.f.Begin, u.f.End)
		h.total += rise
		switch s.Label("mode") {
		case "user", "nice", "system", "irq", "softirq":
			h.busy += rise
		case "steal":
			h.steal += rise
		}
	}
	return h
}

// ownCPU returns the CPU seconds of all processes that the run has started, its members
// and workers too, and of windtunnel.
func (u usage) ownCPU() (sum float64) {
	for _, name := range u.f.Series.Targets(run.CPUSeries) {
		if name != record.WholePlane { // whose processes are counted one by one
			seconds, _ := u.f.CPUSeconds(name)
			sum += seconds
		}
	}
	return sum
}

// shareOfOthers is the share of the machine that no process of the run's used. It is unknown
// where the plane is elsewhere or was not measured.
func (u usage) shareOfOthers(h host) (share float64, known bool) {
	plane := u.planeCPU()
	if h.total <= 0 || plane <= 0 || u.m.Plane.Kind == "kubeconfig" {
		return 0, false
	}
	return max(0, h.busy-u.ownCPU()) / h.total, true
}

// noisyReasons says that the machine did other work, in sentences.
func (u usage) noisyReasons() []string {
	var out []string
	h := u.readHost()
	if share, ok := u.shareOfOthers(h); ok && share > u.m.Neighbours() {
		out = append(out, fmt.Sprintf("Other processes took %.0f %% of this machine's CPU during the run: part of every latency is theirs.", 100*share))
	}
	if h.total > 0 && h.steal/h.total > record.StealShare {
		out = append(out, fmt.Sprintf("The hypervisor kept %.0f %% of this machine's CPU for others during the run: part of every latency is theirs.", 100*h.steal/h.total))
	}
	return out
}

// acceptedShareNote says that another share than the default was accepted of other processes.
func (u usage) acceptedShareNote() []string {
	if u.m.Neighbours() == record.DefaultMaxNeighbours {
		return nil
	}
	used := "It is not known how much of the CPU other processes used"
	if share, ok := u.shareOfOthers(u.readHost()); ok {
		used = fmt.Sprintf("Other processes used %.0f %% of the CPU", 100*share)
	}
	return []string{fmt.Sprintf("%s; up to %.3g %% was accepted (default %.0f %%).", used, 100*u.m.Neighbours(), 100*record.DefaultMaxNeighbours)}
}

// hostMeasures say how busy the machine was.
func (u usage) hostMeasures(m Measures) {
	h := u.readHost()
	if h.total <= 0 {
		return
	}
	m.set("host_busy_share", h.busy/h.total, "ratio")
	m.set("host_steal_share", h.steal/h.total, "ratio")
	if share, ok := u.shareOfOthers(h); ok {
		m.set("host_others_share", share, "ratio")
	}
}
