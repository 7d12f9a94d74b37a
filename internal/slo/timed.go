package slo

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// timeMeasures are the scenario's own stretches of time between steps. A
// stretch that was not gone through has none.
func (j *judging) timeMeasures(m measures) {
	for _, x := range j.sc.Measures {
		if x.Query != "" {
			continue
		}
		from, begun := j.f.moment(record.EventStepBegan, x.Since, j.f.Begin)
		until, ended := j.f.moment(record.EventStepEnded, x.Until, j.f.End)
		if begun && ended && until >= from {
			m.own(x, key(x.Name, "seconds"), until.Sub(from).Seconds(), "seconds")
		}
	}
}

// moment returns when a step began or ended; the fallback for no step.
func (f *facts) moment(kind record.EventType, step string, fallback clock.Time) (clock.Time, bool) {
	if step == "" {
		return fallback, true
	}
	for _, mark := range f.Events {
		if mark.Type == kind && mark.Name == step {
			return mark.At, true
		}
	}
	return 0, false
}
