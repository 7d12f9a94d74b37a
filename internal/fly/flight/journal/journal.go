// Package journal writes what happens in a run into its records: one method for
// each event. It keeps no state of its own, and what instruments see (calls,
// lifecycles, samples) does not pass through it.
package journal

import (
	"errors"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Journal writes the events of one run, each at the time of the call.
type Journal struct {
	Records *record.Writer
	Clock   clock.Clock
}

func (j Journal) writeEvent(e record.Event) {
	e.At = j.Clock.Now()
	j.Records.Event(e)
}

// failedStep is the error of a step that failed.
type failedStep interface {
	error
	// Failed returns the step's name and why.
	Failed() (step string, why error)
}

// RunBegan says that the first step is about to begin.
func (j Journal) RunBegan(scenario string) {
	j.writeEvent(record.Event{Type: record.EventRunBegan, Name: scenario})
}

// RunEnded says in which step the run ended, and why; err is that of a run that
// failed.
func (j Journal) RunEnded(step string, reason record.EndReason, err error) {
	e := record.Event{Type: record.EventRunEnded, Name: step, Detail: record.Detail{Reason: reason}}
	var failed failedStep
	switch {
	case reason != record.Broken && reason != record.Aborted:
	case errors.As(err, &failed):
		name, why := failed.Failed()
		e.Step, e.Text = name, why.Error()
	case err != nil:
		e.Text = err.Error()
	}
	j.writeEvent(e)
}

// StepBegan says that a step, or a part of the run before the steps, has begun.
func (j Journal) StepBegan(name string) {
	j.writeEvent(record.Event{Type: record.EventStepBegan, Name: name})
}

// refuted is the error of what was tried and answered with no.
type refuted interface {
	error
	Refuted() bool
}

// StepEnded says that a step has ended; err is why it failed.
func (j Journal) StepEnded(name string, err error) {
	e := record.Event{Type: record.EventStepEnded, Name: name}
	var no refuted
	if errors.As(err, &no) && no.Refuted() {
		e.State = record.Refuted
	}
	var failed failedStep
	if errors.As(err, &failed) { // of a step inside
		e.Step, _ = failed.Failed()
	}
	if err != nil {
		e.Text = err.Error()
	}
	j.writeEvent(e)
}

// PlaneReady says how many seconds the plane took from its start.
func (j Journal) PlaneReady(seconds float64) {
	j.writeEvent(record.Event{Type: record.EventPlaneReady, Detail: record.Detail{For: time.Duration(seconds * float64(time.Second))}})
}

// FleetReady says that so many nodes can be scheduled to.
func (j Journal) FleetReady(nodes int) {
	j.writeEvent(record.Event{Type: record.EventFleetReady, Detail: record.Detail{Count: nodes}})
}

// Died says that a component, or a subject, has ended by itself.
func (j Journal) Died(component string, err error) {
	j.writeEvent(record.Event{Type: record.EventDied, Name: component, Text: err.Error(), Detail: record.Detail{MemoryLimit: limitOf(err)}})
}

// limitOf returns the memory limit that a death was at.
func limitOf(err error) record.MemoryLimit {
	var d *process.DeathError
	switch {
	case !errors.As(err, &d):
		return ""
	case d.OwnLimit && d.SharedLimit:
		return record.EitherLimit
	case d.SharedLimit:
		return record.PlaneLimit
	case d.OwnLimit:
		return record.OwnLimit
	}
	return ""
}

// Disturbed says what was done to a component, when it was done.
func (j Journal) Disturbed(f plane.FaultEvent) {
	if what := map[string]record.EventType{plane.NoServer: record.EventNoServer, plane.ServerReady: record.EventServerReady}[f.Kind]; what != "" {
		j.Records.Event(record.Event{At: f.At, Type: what, Name: f.Component})
		return
	}
	j.Records.Event(record.Event{At: f.At, Type: record.EventFault, Name: f.Component, Text: strings.TrimSpace(f.Kind + " " + f.Text)})
}

// FaultBegan says that a step has injected a fault that is no component's, and which
// members it breaks, if any.
func (j Journal) FaultBegan(step, action string, members []string) {
	j.writeFault(step, action, members, false)
}

// FaultEnded says that it was taken back.
func (j Journal) FaultEnded(step, action string, members []string) {
	j.writeFault(step, action+" is over", members, true)
}

func (j Journal) writeFault(step, text string, members []string, over bool) {
	e := record.Event{Type: record.EventFault, Name: step, Text: text}
	if len(members) > 0 {
		e.Outage = &record.Outage{Members: members, Over: over}
	}
	j.writeEvent(e)
}

// PartBegan says that an upgrade step changes a process, or the nodes, from one release to
// another.
func (j Journal) PartBegan(step, part, from, to string) {
	j.writeEvent(record.Event{Type: record.EventPartBegan, Name: part, Detail: record.Detail{Step: step, From: from, To: to}})
}

// PartEnded says that it has, or why not.
func (j Journal) PartEnded(step, part, from, to string, err error) {
	e := record.Event{Type: record.EventPartEnded, Name: part, Detail: record.Detail{Step: step, From: from, To: to}}
	if err != nil {
		e.Text = err.Error()
	}
	j.writeEvent(e)
}

// Profiled says that profiles of a component are taken from now, for some
// seconds.
func (j Journal) Profiled(component string) {
	j.writeEvent(record.Event{Type: record.EventProfiled, Name: component})
}

// Dirty says what was not as it should be when the run, or a step, began.
func (j Journal) Dirty(found preflight.Finding) {
	j.writeEvent(record.Event{Type: record.EventDirty, Name: found.Kind, Text: found.Text})
}

// Unmet says of something that was asked for, such as "limits of etcd", that it did not
// come about, and why.
func (j Journal) Unmet(asked string, state record.State, why string) {
	j.writeEvent(record.Unmet(0, asked, state, why))
}

// Warned keeps a sentence for the report.
func (j Journal) Warned(text string) {
	j.writeEvent(record.Event{Type: record.EventWarned, Text: text})
}
