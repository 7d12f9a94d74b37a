// Package inspect looks at a plane: the CPU and the metrics of its components,
// what an earlier run left on it, what is terminating, and how long a creation
// takes. What it finds is a preflight.State; it judges nothing.
package inspect

import (
	"context"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
)

// Options say what to look at, and with what.
type Options struct {
	Clock     clock.Clock
	Plane     *plane.Plane // nil: none was started
	Own       bool         // the run has started it: nobody else uses it
	Client    *wire.Client
	Installed *subject.Installer // what this run has installed is no leftover; nil: nothing
	Run       string             // the stamp of what it has made; empty: there is none
	MaxOthers float64            // share of this machine's CPU that other processes may take; 0: as package record says
	Tolerate  []string           // kinds of findings that the scenario does not hold against the plane
}

// Inspector looks at a plane now and then. What is a rate is that since the look
// before.
type Inspector struct {
	Options
	cpu     CPU                 // as it was read last
	usage   preflight.State     // what the last look at CPU gave
	retries map[string]requeues // by component
	renewed renewal
	stored  map[string]float64 // objects, by resource
	served  []discovery.Resource
}

// New returns an inspector for which CPU counts since a time.
func New(o Options, since CPU) *Inspector {
	return &Inspector{Options: o, cpu: since, retries: map[string]requeues{}}
}

// Start returns an inspector for which everything counts from now on: its next
// look knows the rates.
func Start(ctx context.Context, o Options) *Inspector {
	i := New(o, CPU{})
	i.readMetrics(ctx, &preflight.State{})
	i.RestartCPU()
	return i
}

// State looks at CPU and metrics; the other methods add the rest.
func (i *Inspector) State(ctx context.Context) preflight.State {
	i.measureCPU()
	s := i.usage
	s.MaxOthers = i.MaxOthers
	i.readMetrics(ctx, &s)
	return s
}

// Stored is how many objects there are of each resource, as the last look at
// the metrics gave it; nil where none did.
func (i *Inspector) Stored() map[string]float64 { return i.stored }

// Findings says what of a state is held against the plane, beside what it was at
// first; tolerate names more kinds that are not.
func (i *Inspector) Findings(now, first preflight.State, tolerate ...string) []preflight.Finding {
	return preflight.Findings(now, first, append(tolerate, i.Tolerate...)...)
}
