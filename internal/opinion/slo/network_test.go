package slo_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/scenario"
)

// network writes what a step network leaves: 100 echoes of a second, of which some are
// lost, that were sent late and took 2 ms, and a stream of 10 s at 1 Gbit/s but for its
// second second, at half of that, which kept one of two cores busy. It was sent in 10,000
// segments a second, of which one in a thousand was sent again; a device of either end
// dropped 1 packet before the step, and 7 while it went. The machine of the end that
// received had two cores busy, and took half as many segments.
func (f *flight) network(step string, lost int) {
	op := record.Op{Source: sli.Network, Step: step, Verb: "echo", Resource: "udp"}
	for i := range 100 {
		outcome, took := record.OK, 0.007
		if i < lost {
			outcome, took = record.Unknown, 1
		}
		f.call(op, 20+float64(i)/100, 0.005, took, outcome)
	}
	label, bytes := record.Label{Name: "step", Value: step}, 0.0
	f.event(19.5, record.EventStepBegan, step, "")
	f.event(30.5, record.EventStepEnded, step, "")
	for _, drops := range [][2]float64{{15, 0}, {19.6, 1}, {30.4, 8}} {
		for _, end := range []string{"a", "b"} {
			f.sample(drops[0], sli.Network, sli.NetworkDropsSent, drops[1], record.Label{Name: "namespace", Value: end})
		}
	}
	for i := range 101 {
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkSegments, 3+float64(i)*1000, label)
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkRetransmits, float64(i), label)
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkArrived, float64(i)*500, label)
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkFarCPU, 100+float64(i)/5, label)
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkReceived, bytes, label)
		if bytes += 12.5e6; i >= 10 && i < 20 {
			bytes -= 6.25e6
		}
	}
	f.sample(9, "host", "host_cpu_seconds_total", 0, record.Label{Name: "mode", Value: "irq"}) // it never changes, and is written once
	for i := range 91 {
		for mode, perSecond := range map[string]float64{"user": 0.25, "softirq": 0.75, "idle": 0.9, "steal": 0.1} {
			f.sample(10+float64(i), "host", "host_cpu_seconds_total", float64(i)*perSecond, record.Label{Name: "mode", Value: mode})
		}
	}
}

func TestNetwork(t *testing.T) {
	link, far := map[string]string{"step": "link"}, map[string]string{"step": "link", "end": "to"}
	const mean = 1e9 * 9.5 / 10
	for _, c := range []struct {
		name, sli, statistic string
		labels               map[string]string
		lost                 int
		want                 float64
		unit                 string
		verdict              slo.Verdict // of a bound of twice the value; unknown: nothing is measured
	}{
		{"a round trip is from its sending", "network-round-trip", "p99", link, 0, 0.002, "seconds", slo.Pass},
		{"of all steps", "network-round-trip", "p50", nil, 0, 0.002, "seconds", slo.Pass},
		{"of another step", "network-round-trip", "p50", map[string]string{"step": "other"}, 0, 0, "seconds", slo.Unknown},
		{"loss", "network-loss", "mean", link, 25, 0.25, "ratio", slo.Pass},
		{"no loss", "network-loss", "mean", link, 0, 0, "ratio", slo.Pass},
		{"throughput of all the time", "network-throughput", "mean", link, 0, mean, "bit/s", slo.Pass},
		{"of the slowest stretch", "network-throughput", "min", link, 0, 0.5e9, "bit/s", slo.Pass},
		{"of most stretches", "network-throughput", "p50", link, 0, 1e9, "bit/s", slo.Pass},
		{"of another step", "network-throughput", "mean", map[string]string{"step": "other"}, 0, 0, "bit/s", slo.Unknown},
		{"a core for 10 s", "network-cpu", "mean", link, 0, 10 / (mean * 10 / 8 / 1e9), "seconds/GB", slo.Pass},
		{"a core for 10 s", "network-packet-cpu", "mean", link, 0, 10 / 100_000.0, "seconds", slo.Pass},
		{"of the other end", "network-cpu", "mean", far, 0, 20 / (mean * 10 / 8 / 1e9), "seconds/GB", slo.Pass},
		{"of the other end", "network-packet-cpu", "mean", far, 0, 20 / 50_000.0, "seconds", slo.Pass},
		{"of another step", "network-packet-cpu", "mean", map[string]string{"step": "other"}, 0, 0, "seconds", slo.Unknown},
		{"sent again among them", "network-segments", "sum", link, 0, 100_000, "segments", slo.Pass},
	} {
		t.Run(c.name+" "+c.sli, func(t *testing.T) {
			f := newFlight(t)
			f.objective(scenario.Objective{Name: "o", SLI: c.sli, Statistic: c.statistic, Labels: c.labels, Max: new(2*c.want + 1e-9)})
			f.network("link", c.lost)
			f.end(record.Done)
			r := find(t, f.judge(), "o", c.labels)
			if r.Verdict != c.verdict || r.Unit != c.unit {
				t.Errorf("%s, %q: want %s, %q (%q)", r.Verdict, r.Unit, c.verdict, c.unit, r.Warnings)
			}
			if said := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "5 ms after they were due") }); said != (c.sli == "network-round-trip" && c.verdict == slo.Pass) {
				t.Errorf("that echoes were late: said %v, %q", said, r.Warnings)
			}
			if c.verdict == slo.Unknown {
				return
			}
			if r.Value == nil || math.Abs(*r.Value-c.want) > 1e-6*math.Max(1, c.want) {
				t.Errorf("%v: want %v", r.Value, c.want)
			}
		})
	}
}

// TestNetworkIsNotTheLoad holds that echoes that are lost are no failed calls, and late
// ones no late calls of the load: the instrument is another.
func TestNetworkIsNotTheLoad(t *testing.T) {
	f := newFlight(t)
	f.calls(100)
	f.network("link", 50)
	f.end(record.Done)
	j := f.judge()
	if j.Verdict != slo.Pass {
		t.Errorf("%s: %q", j.Verdict, j.Reasons)
	}
	for key, want := range map[string]float64{"calls_total": 100, "network_loss_link": 0.5, "network_throughput_link": 0.95e9, "network_cpu_link": 10 / (0.95 * 10 / 8),
		"network_packet_cpu_seconds_link": 1e-4, "network_cpu_to_link": 20 / (0.95 * 10 / 8), "network_packet_cpu_seconds_to_link": 4e-4,
		"network_segments_link": 100_000, "network_retransmits_link": 100, "network_drops_link": 14} {
		if got := j.Measures[key].Value; math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s = %v: want %v", key, got, want)
		}
	}
}

// turn adds a step that is a path's turn, with 100 echoes that took so many milliseconds and
// a stream of a second of so many Gbit/s, and what it left. Of a turn without a stream nothing
// but echoes was asked for; one whose echoes took 0 was not measured.
func (f *flight) turn(path string, i int, ms, gbits float64) {
	step := scenario.Step{Name: fmt.Sprintf("%s-%d", path, i), Network: &scenario.Network{Path: path, Echo: &scenario.Echo{}}}
	op := record.Op{Source: sli.Network, Step: step.Name, Verb: "echo", Resource: "udp"}
	for k := range 100 {
		if took := ms / 1000; took > 0 {
			f.call(op, 20+float64(i)+float64(k)/200, 0, took+float64(k)/1e6, record.OK)
		}
	}
	if gbits > 0 {
		step.Network.Stream = &scenario.Stream{}
		for k := range 11 {
			f.sample(20+float64(i)+float64(k)/10, sli.Network, sli.NetworkReceived, float64(k)*gbits*1e9/8/10, record.Label{Name: "step", Value: step.Name})
		}
	}
	f.sc.Steps = append(f.sc.Steps, step)
}

// TestNetworkTurns holds that paths are compared turn by turn: a machine that becomes slower
// makes the medians of both uncertain, and not their difference.
func TestNetworkTurns(t *testing.T) {
	f := newFlight(t)
	for i := range 9 {
		drift := 3 * float64(i) // ms; far more than what lies between the paths
		f.turn("short", i, 10+drift, 10)
		f.turn("long", i, 10.5+drift, 8)
	}
	f.turn("short", 9, 10, 0)
	f.turn("long", 9, 0, 0) // which was not measured
	f.turn("other", 0, 1, 0)
	want := []struct {
		name, sli, statistic string
		labels               map[string]string
		value                float64
		samples              int
		within               float64 // how wide the interval is at most
	}{
		{"short", "network-turns-round-trip", "p50", map[string]string{"path": "short"}, 0.020549, 10, 1},
		{"longer", "network-turns-round-trip", "p50", map[string]string{"path": "long", "than": "short"}, 0.0005, 9, 1e-7},
		{"longer at p99", "network-turns-round-trip", "p99", map[string]string{"path": "long", "than": "short"}, 0.0005, 9, 1e-7},
		{"than the other", "network-turns-round-trip", "p50", map[string]string{"path": "long", "than": "other"}, 0.0095, 1, 1},
		{"rate", "network-turns-throughput", "mean", map[string]string{"path": "long"}, 8e9, 9, 1},
		{"slower", "network-turns-throughput", "mean", map[string]string{"path": "short", "than": "long"}, 2e9, 9, 1},
	}
	for _, w := range want {
		f.objective(scenario.Objective{Name: w.name, SLI: w.sli, Statistic: w.statistic, Labels: w.labels, Min: new(0.0)})
	}
	f.objective(scenario.Objective{Name: "none", SLI: "network-turns-throughput", Statistic: "mean", Labels: map[string]string{"path": "other"}, Min: new(0.0)})
	f.end(record.Done)
	j := f.judge()
	for _, w := range want {
		r := find(t, j, w.name, w.labels)
		if r.Value == nil || math.Abs(*r.Value-w.value) > 1e-6*max(1, w.value) || r.Samples != w.samples || r.Verdict != slo.Pass {
			t.Errorf("%s: %+v: want %v of %d turns", w.name, r, w.value, w.samples)
			continue
		}
		if w.samples >= 6 && (r.Interval == nil || r.Interval[1]-r.Interval[0] > w.within) {
			t.Errorf("%s: interval %v: want one of at most %v", w.name, r.Interval, w.within)
		}
	}
	if r := find(t, j, "short", want[0].labels); r.Interval == nil || r.Interval[1]-r.Interval[0] < 0.01 {
		t.Errorf("interval %v of a path by itself, on a machine that drifts: want it wide", r.Interval)
	}
	if r := find(t, j, "longer", want[1].labels); !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "1 of 10 turns") }) {
		t.Errorf("%q: want that a turn was not measured", r.Warnings)
	}
	if r := find(t, j, "none", map[string]string{"path": "other"}); r.Verdict != slo.Unknown {
		t.Errorf("%+v of a path without streams", r)
	}
	for key, want := range map[string]float64{"network_turns_round_trip_p50_seconds_other": 0.001049, "network_turns_throughput_short": 10e9} {
		if got := j.Measures[key].Value; math.Abs(got-want) > 1e-6*max(1, want) {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
	if _, alone := j.Measures["network_round_trip_p50_seconds_short_1"]; alone {
		t.Error("a turn stands among the measures by itself")
	}
}
