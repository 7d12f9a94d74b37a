package slo_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

// network writes what a step network leaves: 100 echoes of a second, of which some are
// lost, that were sent late and took 2 ms, and a stream of 10 s at 1 Gbit/s but for its
// second second, at half of that, which kept one of two cores busy.
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
	for i := range 101 {
		f.sample(20+float64(i)/10, sli.Network, sli.NetworkReceived, bytes, label)
		if bytes += 12.5e6; i >= 10 && i < 20 {
			bytes -= 6.25e6
		}
	}
	for i := range 91 {
		for mode, perSecond := range map[string]float64{"user": 0.25, "softirq": 0.75, "idle": 0.9, "steal": 0.1} {
			f.sample(10+float64(i), "host", "host_cpu_seconds_total", float64(i)*perSecond, record.Label{Name: "mode", Value: mode})
		}
	}
}

func TestNetwork(t *testing.T) {
	link := map[string]string{"step": "link"}
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
	} {
		t.Run(c.name+" "+c.sli, func(t *testing.T) {
			f := newFlight(t)
			f.objective(scenario.Objective{Name: "o", SLI: c.sli, Statistic: c.statistic, Labels: c.labels, Max: ptr(2*c.want + 1e-9)})
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
	for key, want := range map[string]float64{"calls_total": 100, "network_loss_link": 0.5, "network_throughput_link": 0.95e9} {
		if got := j.Measures[key].Value; math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s = %v: want %v", key, got, want)
		}
	}
}
