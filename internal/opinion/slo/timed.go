package slo

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// timeMeasures are the scenario's own stretches of time between steps. A
// stretch that was not gone through has none.
func timeMeasures(m Measures, sc *scenario.Scenario, f *run.Facts) {
	for _, x := range sc.Measures {
		if x.Query != "" {
			continue
		}
		from, begun := stepMoment(f, record.EventStepBegan, x.Since, f.Begin)
		until, ended := stepMoment(f, record.EventStepEnded, x.Until, f.End)
		if begun && ended && until >= from {
			m.setOwn(x, joinKey(x.Name, "seconds"), until.Sub(from).Seconds(), "seconds")
		}
	}
}

// stepMoment returns when a step began or ended; the fallback for no step.
func stepMoment(f *run.Facts, what record.EventType, step string, fallback clock.Time) (clock.Time, bool) {
	if step == "" {
		return fallback, true
	}
	for _, mark := range f.Events {
		if mark.Type == what && mark.Name == step {
			return mark.At, true
		}
	}
	return 0, false
}
