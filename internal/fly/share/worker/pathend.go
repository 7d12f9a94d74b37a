package worker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/scenario"
)

const (
	maxArrived = 20_000      // that a worker keeps of a step
	forgotten  = time.Minute // that a worker's end stays open longer than it can be needed
)

var errNoPath = errors.New("no such path")

// answering is the answering end of a step's path, at a worker. Close it after use.
type answering struct {
	end *network.Answerer

	mu      sync.Mutex
	arrived []steps.Arrived
}

// beginAnswer begins to answer at the end of a step's path; host is the address of it where
// the scenario says none.
func beginAnswer(ctx context.Context, s *steps.Session, step, host string) (*answering, error) {
	n := networkOf(s, step)
	if n == nil || n.To.Worker == nil {
		return nil, fmt.Errorf("step %q: %w", step, errNoPath)
	}
	at := steps.NetworkEnd(n.To)
	if !at.Address.IsValid() {
		own, err := netip.ParseAddr(host)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", step, err)
		}
		at.Address = own.Unmap()
	}
	a := &answering{}
	o := network.AnswerOptions{At: at, Lifetime: time.Duration(n.For) + forgotten, Every: max(steps.ReadEvery, time.Duration(n.For)/maxArrived), Clock: s.Clock, Took: a.takeArrival}
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
func networkOf(s *steps.Session, name string) *scenario.Network {
	if step := s.Workload.StepNamed(name); step != nil {
		return step.Network
	}
	return nil
}

func (a *answering) takeArrival(one network.Arrival) {
	busy := 0.0
	for mode, seconds := range usage.HostTimes() {
		if usage.IsWork(mode) {
			busy += seconds
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.arrived) < maxArrived+2 { // the last one ends the step
		a.arrived = append(a.arrived, steps.Arrived{Arrival: one, Busy: busy})
	}
}

// reach is how the sending end finds it.
func (a *answering) reach() network.Reach { return a.end.Reach() }

// close ends it and returns what has arrived, by the worker's clock.
func (a *answering) close() []steps.Arrived {
	_ = a.end.Close() // it does not fail
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.arrived
}
