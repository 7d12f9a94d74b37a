package steps

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Answerer has workers be the answering ends of paths.
type Answerer interface {
	// Answer has a worker answer at the end of a step's path.
	Answer(ctx context.Context, worker int, step string) (network.Reach, error)
	// Answered ends that and returns what arrived there, by the run's clock.
	Answered(ctx context.Context, worker int, step string) ([]Arrived, error)
}

// Arrived is what a worker's end of a path has counted until a moment.
type Arrived struct {
	network.Arrival
	Busy float64 // seconds for which cores of its machine were busy, since that was started
}

const (
	maxArrived = 20_000      // that a worker keeps of a step
	forgotten  = time.Minute // that a worker's end stays open longer than it can be needed
)

var (
	errNoAnswer = errors.New("its answering end is a worker, and there are none")
	errNoPath   = errors.New("no such path")
)

// CheckAnswers joins an error for each step whose path ends at a worker that is not among
// so many. It is asked before anything is started.
func (w *Workload) CheckAnswers(workers int) error {
	var errs []error
	for step := range w.Scenario.AllSteps() {
		if n := step.Network; n != nil && n.To.Worker != nil && *n.To.Worker >= workers {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: network.to.worker: %d is not among %s; run it with --workers %d or more", w.File, step.Line, step.Name, *n.To.Worker, unit.Count(workers, "workers"), *n.To.Worker+1))
		}
	}
	return errors.Join(errs...)
}

// Answering is the answering end of a step's path, at a worker. Close it after use.
type Answering struct {
	end *network.Answerer

	mu      sync.Mutex
	arrived []Arrived
}

// Answer begins to answer at the end of a step's path; host is the address of it where
// the scenario says none.
func (s *Session) Answer(ctx context.Context, step, host string) (*Answering, error) {
	n := s.networkOf(step)
	if n == nil || n.To.Worker == nil {
		return nil, fmt.Errorf("step %q: %w", step, errNoPath)
	}
	at := networkEnd(n.To)
	if !at.Address.IsValid() {
		own, err := netip.ParseAddr(host)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", step, err)
		}
		at.Address = own.Unmap()
	}
	a := &Answering{}
	o := network.AnswerOptions{At: at, Lifetime: time.Duration(n.For) + forgotten, Every: max(readEvery, time.Duration(n.For)/maxArrived), Clock: s.Clock, Took: a.takeArrival}
	if e := n.Echo; e != nil {
		o.Echoes = e.Protocol != "icmp"
		o.Lifetime += 2 * time.Duration(e.Timeout)
	}
	if n.Stream != nil {
		o.Streams = n.Stream.Count
	}
	var err error
	if a.end, err = network.Answer(ctx, o); err != nil {
		return nil, err
	}
	return a, nil
}

// networkOf is what a step measures; nil: it measures none.
func (s *Session) networkOf(name string) *scenario.Network {
	for step := range s.Workload.Scenario.AllSteps() {
		if step.Name == name {
			return step.Network
		}
	}
	return nil
}

func (a *Answering) takeArrival(one network.Arrival) {
	busy := 0.0
	for mode, seconds := range usage.HostTimes() {
		if usage.IsWork(mode) {
			busy += seconds
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.arrived) < maxArrived+2 { // the last one ends the step
		a.arrived = append(a.arrived, Arrived{one, busy})
	}
}

// Reach is how the sending end finds it.
func (a *Answering) Reach() network.Reach { return a.end.Reach() }

// Close ends it and returns what has arrived, by the worker's clock.
func (a *Answering) Close() []Arrived {
	_ = a.end.Close() // it does not fail
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrived
}
