package slo

import (
	"fmt"
)

// Bounds beyond which the machine was not the run's own. How much of a latency
// was the others' cannot be known: a run that misses an objective beside them
// is unknown, one that holds them all in spite of them has passed.
const (
	// NoisyShare is the share of all cores' time that processes other than the
	// plane and windtunnel may take.
	NoisyShare = 0.1
	// StealShare is the share that a hypervisor may keep for other machines.
	StealShare = 0.02
)

const hostSeconds = "host_cpu_seconds_total"

// host is what the machine's cores did during the run, in seconds of all cores.
type host struct{ total, busy, steal float64 }

// host reads it from the samples of package usage; nothing where there are none.
func (f *facts) host() (h host) {
	for _, s := range f.Series.Select("", hostSeconds, nil) {
		rise, _ := s.Increase(f.Begin, f.End)
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

// others is the share of the machine that neither the plane, a subject nor
// windtunnel used. It is unknown where the plane is elsewhere or was not measured.
func (j *judging) others(h host) (share float64, known bool) {
	plane := j.planeCPU()
	if h.total <= 0 || plane <= 0 || j.m.Plane.Kind == "kubeconfig" {
		return 0, false
	}
	return max(0, h.busy-plane-j.subjectCPU()-j.f.cpu(Instrument)) / h.total, true
}

// noisy says that the machine did other work, in sentences.
func (j *judging) noisy() []string {
	var out []string
	h := j.f.host()
	if share, ok := j.others(h); ok && share > NoisyShare {
		out = append(out, fmt.Sprintf("Other processes took %.0f %% of this machine's CPU during the run: part of every latency is theirs.", 100*share))
	}
	if h.total > 0 && h.steal/h.total > StealShare {
		out = append(out, fmt.Sprintf("The hypervisor kept %.0f %% of this machine's CPU for others during the run: part of every latency is theirs.", 100*h.steal/h.total))
	}
	return out
}

// hostMeasures say how busy the machine was.
func (j *judging) hostMeasures(m measures) {
	h := j.f.host()
	if h.total <= 0 {
		return
	}
	m.set("host_busy_share", h.busy/h.total, "ratio")
	m.set("host_steal_share", h.steal/h.total, "ratio")
	if share, ok := j.others(h); ok {
		m.set("host_others_share", share, "ratio")
	}
}

// throttled returns for how many seconds a component's threads were held back
// by its CPU limit during the run.
func (f *facts) throttled(target string) (seconds float64, known bool) {
	for _, s := range f.Series.Select(target, "cgroup_cpu_throttled_seconds_total", nil) {
		if rise, ok := s.Increase(f.Begin, f.End); ok {
			seconds, known = seconds+rise, true
		}
	}
	return seconds, known
}
