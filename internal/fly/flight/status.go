package flight

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// Status is where a run stands, for a person who watches it.
type Status struct {
	Step        string        // the one that began last; " +N" when others run at the same time
	Index, Of   int           // how many steps have begun, of all
	Elapsed     time.Duration // of the run
	InStep      time.Duration // of the step
	Done, Total int           // calls ended of this step and those beside it, pods waited for, nodes; Total 0 when it cannot be said
	Requested   float64       // calls per second asked for; 0 when none are sent
	Achieved    float64       // by how many Done changed per second
	P99         time.Duration // of the calls so far, from due to done
	Failed      int           // calls that failed or were lost, whole run
	Late        int           // calls that left late, whole run
	For         string        // what is waited for that cannot be counted, such as "4 pods are terminating"
	Left        time.Duration // until the step's end as things go; negative when unknown
}

// ownSteps come before the scenario's.
const ownSteps = 4

// memberSteps come beside them where there are members: they start, and get their nodes.
const memberSteps = 2

// underWay is a step that has begun and not ended.
type underWay struct {
	name        string
	began       clock.Time
	before      load.Progress
	waits       bool // for what first, done and total count
	first       int  // that was there before
	done, total int
	what        string // that it waits for
}

// progress knows how far a run has come: what its status is made of.
type progress struct {
	clock     clock.Clock
	nodes     int // that the fleet is to have
	mu        sync.Mutex
	steps     []*underWay // in the order of their begin
	last      *underWay   // that began
	outer     *underWay   // that began when no other was under way: calls are counted from its begin
	begun, of int
	senders   *leader.Senders
	fleet     *fleet.Fleet // nil: there is none, or workers have it
}

func newProgress(s *scenario.Scenario, c clock.Clock) *progress {
	p := &progress{clock: c, nodes: s.Fleet.Nodes, of: ownSteps + subjectSteps(s)}
	if len(s.Members) > 0 {
		p.of += memberSteps
	}
	for range s.AllSteps() {
		p.of++
	}
	return p
}

// Enter begins a step; what it returns ends it.
func (p *progress) Enter(step string) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := &underWay{name: step, began: p.clock.Now()}
	if p.senders != nil {
		one.before = p.senders.Progress()
	}
	p.begun++
	if len(p.steps) == 0 {
		p.outer = one
	}
	p.last, p.steps = one, append(p.steps, one)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.steps = slices.DeleteFunc(p.steps, func(s *underWay) bool { return s == one })
	}
}

// enterCleanUp says that what the run made is taken away again, which is no step.
func (p *progress) enterCleanUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = &underWay{name: "clean-up", began: p.clock.Now()}
	if p.senders != nil {
		p.last.before = p.senders.Progress()
	}
	p.steps, p.outer = nil, p.last
}

// setSources says what the progress is read from, as it comes into being.
func (p *progress) setSources(s *leader.Senders, f *fleet.Fleet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.senders, p.fleet = s, f
}

// stepName is the name of the step that began last, for the end of the run.
func (p *progress) stepName() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		return ""
	}
	return p.last.name
}

// Waiting says how far a step that waits has come.
func (p *progress) Waiting(step string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.steps {
		if s.name != step {
			continue
		}
		if !s.waits {
			s.waits, s.first = true, done
		}
		s.done, s.total = done, total
	}
}

// WaitingFor says what a step waits for.
func (p *progress) WaitingFor(step, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.steps {
		if s.name == step {
			s.what = what
		}
	}
}

// shownStep is the step that the status tells of: the last one that runs.
func (p *progress) shownStep() *underWay {
	if n := len(p.steps); n > 0 {
		return p.steps[n-1]
	}
	return p.last
}

// currentStatus computes the status.
func (p *progress) currentStatus() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.clock.Now()
	s := Status{Index: p.begun, Of: p.of, Elapsed: time.Duration(t), Left: -1}
	step := p.shownStep()
	if step == nil {
		return s
	}
	s.Step, s.InStep, s.Done, s.Total, s.For = step.name, t.Sub(step.began), step.done, step.total, step.what
	first, since := step.first, step.began
	if n := len(p.steps); n > 1 {
		s.Step += fmt.Sprintf(" +%d", n-1)
	}
	if step.name == "populate" && p.nodes > 0 && p.senders != nil {
		s.Done, s.Total = p.senders.CountNodes(), p.nodes
		if p.fleet != nil {
			s.Done = p.fleet.Stats().Schedulable
		}
	}
	if p.senders != nil {
		calls := p.senders.Progress()
		s.Failed, s.Late = calls.Failed+calls.Lost, calls.Late
		if calls.Count > step.before.Count { // calls are sent: all of those at the same time are one sum
			first, since = 0, p.outer.began
			s.Done, s.Total, s.P99 = calls.Ended-p.outer.before.Ended, calls.Count-p.outer.before.Count, calls.P99
			if !math.IsInf(calls.Requested, 1) {
				s.Requested = calls.Requested
			}
		}
	}
	s.setRate(first, t.Sub(since))
	return s
}

// setRate tells how fast Done has changed since it was first, and when it will be
// Total at that rate. What is waited for until it is gone counts down.
func (s *Status) setRate(first int, took time.Duration) {
	changed, left := s.Done-first, s.Total-s.Done
	if s.Total < first {
		changed, left = -changed, -left
	}
	if sec := took.Seconds(); sec > 0.5 && changed > 0 {
		s.Achieved = float64(changed) / sec
		if left >= 0 {
			s.Left = time.Duration(float64(left) / s.Achieved * float64(time.Second))
		}
	}
}

// statusEvery is how often status.json is written.
const statusEvery = time.Second

// reportPeriodically reports the status now and then until ctx ends: to who asked for it, and
// in the run directory, for the live page.
func (p *progress) reportPeriodically(ctx context.Context, o Options, dir *directory) {
	tell := time.NewTicker(max(o.StatusEvery, 100*time.Millisecond))
	defer tell.Stop()
	write := time.NewTicker(statusEvery)
	defer write.Stop()
	for {
		select {
		case <-tell.C:
			if o.Status != nil {
				o.Status(p.currentStatus())
			}
		case <-write.C:
			// Without it only the live page's first line is missing.
			_ = dir.WriteJSON(record.StatusFile, p.currentStatus().toRecord())
		case <-ctx.Done():
			return
		}
	}
}

// toRecord is the status as the run directory has it.
func (s Status) toRecord() record.Status {
	left := s.Left.Seconds()
	if s.Left < 0 {
		left = -1
	}
	return record.Status{
		Step: s.Step, Index: s.Index, Of: s.Of, Elapsed: s.Elapsed.Seconds(), Done: s.Done, Total: s.Total,
		Requested: s.Requested, Achieved: s.Achieved, P99: s.P99.Seconds(), Failed: s.Failed, Late: s.Late, For: s.For, Left: left,
	}
}
