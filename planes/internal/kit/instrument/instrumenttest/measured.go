// Package instrumenttest lets tests read what a process under test counts.
package instrumenttest

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// Measure is what the series of a metric say together.
type Measure struct {
	Value    float64 // of counters and gauges
	Observed int     // by histograms
	Sum      float64 // of what histograms observed, in the metric's unit
}

// Measured adds up the series of a metric that have all labels, NAME=VALUE. It is
// zero of a metric that is not there.
func Measured(t testing.TB, registry *instrument.Registry, name string, labels ...string) (out Measure) {
	t.Helper()
	families := repotest.Must(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetName()+"="+l.GetValue()] = true
			}
			missing := false
			for _, l := range labels {
				missing = missing || !has[l]
			}
			if missing {
				continue
			}
			out.Value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			out.Observed += int(m.GetHistogram().GetSampleCount())
			out.Sum += m.GetHistogram().GetSampleSum()
		}
	}
	return out
}
