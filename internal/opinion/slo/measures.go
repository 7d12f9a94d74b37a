package slo

import (
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// Measures are the named numbers of a run by their keys. A number that was not measured has
// no entry. Keys are stable: benchmarks, published figures and comparisons
// refer to them.
type Measures map[string]Measure

func (m Measures) set(key string, v float64, unit string) {
	m.setMeasure(key, Measure{Value: v, Unit: unit})
}

// setOwn sets one that the scenario asked for.
func (m Measures) setOwn(x scenario.Measure, key string, v float64, unit string) {
	m.setMeasure(key, Measure{Value: v, Unit: unit, Own: true, Better: x.Better})
}

func (m Measures) setMeasure(key string, x Measure) {
	if isFinite(x.Value) {
		x.Value = roundFigure(x.Value)
		m[key] = x
	}
}

// Key returns the key under which a named number stands in the verdict's
// measures, such as "filling_seconds" for the parts "Filling" and "seconds".
func Key(parts ...string) string { return joinKey(parts...) }

// joinKey joins parts to a key of lower case letters, digits and underscores.
func joinKey(parts ...string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 && part != "" {
			b.WriteByte('_')
		}
		for _, c := range strings.ToLower(part) {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				b.WriteRune(c)
			} else {
				b.WriteByte('_')
			}
		}
	}
	return b.String()
}

// planeMeasures say how long plane, fleet and run took.
func planeMeasures(m Measures, f *run.Facts, about record.Manifest) {
	if about.Plane.Ready > 0 {
		m.set("plane_ready_seconds", about.Plane.Ready, "seconds")
	}
	for _, mark := range f.EventsOf(record.EventFleetReady) {
		for _, begin := range f.EventsOf(record.EventStepBegan) {
			if begin.Name == "populate" {
				m.set("fleet_ready_seconds", mark.At.Sub(begin.At).Seconds(), "seconds")
			}
		}
	}
	if about.Fleet.Nodes > 0 {
		m.set("nodes", float64(about.Fleet.Nodes), "nodes")
	}
	m.set("run_seconds", f.End.Sub(f.Begin).Seconds(), "seconds")
}

// callMeasures say what the load asked for and got, in all and by step.
func callMeasures(m Measures, f *run.Facts) {
	var outcomes [3]int
	for _, c := range f.Calls {
		if c.Source != run.Load {
			continue
		}
		for i, n := range c.Outcomes {
			outcomes[i] += n
		}
		stepMeasures(m, c, f.Together(c.Due) && f.Together(c.Answered))
	}
	m.set("calls_total", float64(outcomes[0]+outcomes[1]+outcomes[2]), "calls")
	m.set("calls_failed", float64(outcomes[record.Failed]), "calls")
	m.set("calls_unknown", float64(outcomes[record.Unknown]), "calls")
	if all := outcomes[0] + outcomes[1] + outcomes[2]; all > 0 {
		m.set("call_success_mean", float64(outcomes[record.OK])/float64(all), "ratio")
	}
}

// stepMeasures are a step's latencies and rates. The rate offered is that of
// its due times, the rate achieved that of its answers with success: n-1 calls
// in the time from the first to the last of n.
// Rates are left out where the moments they are made of cannot be compared.
func stepMeasures(m Measures, c *run.Calls, rates bool) {
	suffix := []string{c.Step}
	setQuantiles(m, "call_latency", &c.Latency, suffix...)
	setQuantiles(m, "service_latency", &c.Service, suffix...)
	if !rates {
		return
	}
	if s := c.Due.Seconds(); c.Count() > 1 && s > 0 {
		m.set(joinKey("offered_rate", c.Step), float64(c.Count()-1)/s, "calls/s")
	}
	if n, s := c.Outcomes[record.OK], c.Answered.Seconds(); n > 1 && s > 0 {
		m.set(joinKey("achieved_rate", c.Step), float64(n-1)/s, "calls/s")
	}
}

// setQuantiles sets NAME_p50_seconds, NAME_p90_seconds and NAME_p99_seconds,
// followed by a suffix. One whose value nothing bounds is left out.
func setQuantiles(m Measures, name string, d *stats.Durations, suffix ...string) {
	for _, q := range []float64{0.5, 0.9, 0.99} {
		e := d.Quantile(q)
		if e.Samples > 0 && e.Value == e.High {
			parts := append([]string{name, "p" + strconv.Itoa(int(q*100+0.5)), "seconds"}, suffix...)
			m.set(joinKey(parts...), e.Value, "seconds")
		}
	}
}

// podTransitions returns those parts of a pod's lifecycle that measures are made of.
func podTransitions() [][3]string {
	return [][3]string{
		{"pod_startup", record.PhaseCreated, record.PhaseRunning},
		{"create_to_bound", record.PhaseCreated, record.PhaseBound},
		{"bound_to_running", record.PhaseBound, record.PhaseRunning},
		{"running_to_ready", record.PhaseRunning, record.PhaseReady},
		{"deleting_to_deleted", record.PhaseDeleting, record.PhaseDeleted},
	}
}

// podMeasures say how pods went through their lifecycles: over all groups, and with
// the group's name behind for each.
func podMeasures(m Measures, f *run.Facts) {
	all := f.Pods(nil)
	if len(all) == 0 {
		return
	}
	groupMeasures(m, f, all, "")
	for _, l := range all {
		groupMeasures(m, f, []*run.Lifecycles{l}, l.Group)
	}
}

// namespaceMeasures say how long namespaces took to go, where they were observed.
func namespaceMeasures(m Measures, f *run.Facts) {
	d := &stats.Durations{}
	for _, l := range f.Lifecycles {
		if l.Resource == "namespaces" {
			l.Durations(d, record.PhaseDeleting, record.PhaseDeleted, f)
		}
	}
	setQuantiles(m, "namespace_deletion", d)
}

func groupMeasures(m Measures, f *run.Facts, all []*run.Lifecycles, group string) {
	for _, s := range podTransitions() {
		d := &stats.Durations{}
		for _, l := range all {
			l.Durations(d, s[1], s[2], f)
		}
		setQuantiles(m, s[0], d, group)
	}
	for _, phase := range []string{record.PhaseCreated, record.PhaseRunning, record.PhaseDeleted} {
		m.set(joinKey("pods", phase, group), float64(countReached(all, phase)), "pods")
	}
	if rate, _ := ratePerSecond(all, record.PhaseCreated, record.PhaseRunning); rate > 0 {
		m.set(joinKey("pods_running_per_second", group), rate, "pods/s")
	}
	if rate, _ := ratePerSecond(all, record.PhaseDeleting, record.PhaseDeleted); rate > 0 {
		m.set(joinKey("pods_deleted_per_second", group), rate, "pods/s")
	}
}

func countReached(all []*run.Lifecycles, phase string) (n int) {
	for _, l := range all {
		n += l.Reached(phase)
	}
	return n
}
