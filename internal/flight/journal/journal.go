// Package journal writes what happens in a run into its records: one method for
// each event. It keeps no state of its own, and what instruments see (calls,
// lifecycles, samples) does not pass through it.
package journal

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Journal writes the events of one run, each at the time of the call.
type Journal struct {
	Records *record.Writer
	Clock   clock.Clock
}

func (j Journal) mark(kind, name, text string) {
	j.Records.Mark(record.Mark{At: j.Clock.Now(), Kind: kind, Name: name, Text: text})
}

// RunBegan says that the first step is about to begin.
func (j Journal) RunBegan(scenario string) { j.mark(record.MarkRunBegin, scenario, "") }

// RunEnded says in which step the run ended, and why: "done", "interrupted" or
// "failed: " and why.
func (j Journal) RunEnded(step, reason string) { j.mark(record.MarkRunEnd, step, reason) }

// StepBegan says that a step, or a part of the run before the steps, has begun.
func (j Journal) StepBegan(name string) { j.mark(record.MarkStepBegin, name, "") }

// StepEnded says that a step has ended; err is why it did not do what it should.
func (j Journal) StepEnded(name string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	j.mark(record.MarkStepEnd, name, text)
}

// PlaneReady says how many seconds the plane took from its start.
func (j Journal) PlaneReady(seconds float64) {
	j.mark(record.MarkPlaneReady, "", fmt.Sprintf("%.3f", seconds))
}

// FleetReady says that so many nodes can be scheduled to.
func (j Journal) FleetReady(nodes int) { j.mark(record.MarkFleetReady, fmt.Sprint(nodes), "") }

// Died says that a component, or a subject, has ended by itself.
func (j Journal) Died(component string, err error) {
	j.mark(record.MarkDeath, component, err.Error())
}

// Disturbed says what was done to a component, when it was done.
func (j Journal) Disturbed(f plane.Fault) {
	j.Records.Mark(record.Mark{At: f.At, Kind: record.MarkFault, Name: f.Component, Text: strings.TrimSpace(f.Kind + " " + f.Text)})
}

// FaultBegan says that a step has injected a fault that is no component's.
func (j Journal) FaultBegan(step, action string) { j.mark(record.MarkFault, step, action) }

// FaultEnded says that it was taken back.
func (j Journal) FaultEnded(step, action string) { j.mark(record.MarkFault, step, action+" is over") }

// Profiled says that profiles of a component are taken from now, for some
// seconds.
func (j Journal) Profiled(component string) { j.mark(record.MarkProfile, component, "") }

// Dirty says what was not as it should be when the run, or a step, began.
func (j Journal) Dirty(found preflight.Fault) {
	j.mark(record.MarkUnclean, found.Kind, found.Text)
}

// Warned keeps a sentence for the report.
func (j Journal) Warned(text string) { j.mark(record.MarkWarning, "", text) }
