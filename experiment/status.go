package experiment

import (
	"context"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/fleet"
	"github.com/windtunnel/windtunnel/load"
)

// Status is where a run stands, for a person who watches it.
type Status struct {
	Step        string
	Index, Of   int           // the step's number among all, from 1
	Elapsed     time.Duration // of the run
	InStep      time.Duration // of the step
	Done, Total int           // of the step: calls ended, pods waited for, nodes; Total 0 when it cannot be said
	Requested   float64       // calls per second asked for; 0 when the step sends none
	Achieved    float64       // calls per second ended since the step began
	P99         time.Duration // of the step's calls so far, from due to done
	Failed      int           // calls that failed or were lost, whole run
	Late        int           // calls that left late, whole run
	Left        time.Duration // until the step's end as things go; negative when unknown
}

// ownSteps come before the scenario's.
const ownSteps = 3

// board collects what the status is made of.
type board struct {
	r         *run
	mu        sync.Mutex
	s         Status
	at        clock.Time // begin of the step
	before    load.Progress
	generator *load.Generator
	fleet     *fleet.Fleet
}

func newBoard(r *run) *board { return &board{r: r, s: Status{Of: ownSteps + len(r.scenario.Steps)}} }

func (b *board) enter(step string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s = Status{Step: step, Index: b.s.Index + 1, Of: b.s.Of}
	b.at = b.r.clock.Now()
	if b.generator != nil {
		b.before = b.generator.Progress()
	}
}

// follow says what the progress is read from, as it comes into being.
func (b *board) follow(g *load.Generator, f *fleet.Fleet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generator, b.fleet = g, f
}

func (b *board) stepName() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s.Step
}

func (b *board) waiting(done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s.Done, b.s.Total = done, total
}

// now computes the status.
func (b *board) now() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	t := b.r.clock.Now()
	s.Elapsed, s.InStep, s.Left = time.Duration(t), t.Sub(b.at), -1
	if s.Step == "populate" && b.fleet != nil {
		st := b.fleet.Stats()
		s.Done, s.Total = st.Schedulable, b.r.scenario.Fleet.Nodes
	}
	if g := b.generator; g != nil {
		p := g.Progress()
		s.Failed, s.Late = p.Failed+p.Lost, p.Late
		if p.Count > b.before.Count { // this step sends
			s.Done, s.Total, s.Requested, s.P99 = p.Ended-b.before.Ended, p.CountNow, p.Requested, p.P99
		}
	}
	if sec := s.InStep.Seconds(); sec > 0.5 && s.Done > 0 {
		s.Achieved = float64(s.Done) / sec
		if s.Total >= s.Done && s.Achieved > 0 {
			s.Left = time.Duration(float64(s.Total-s.Done) / s.Achieved * float64(time.Second))
		}
	}
	return s
}

// loop reports the status now and then until ctx ends.
func (b *board) loop(ctx context.Context) {
	o := b.r.options
	if o.Status == nil {
		return
	}
	tick := time.NewTicker(max(o.StatusEvery, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			o.Status(b.now())
		case <-ctx.Done():
			return
		}
	}
}
