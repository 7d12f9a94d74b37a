package flight

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/record"
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
	Left        time.Duration // until the step's end as things go; negative when unknown
}

// ownSteps come before the scenario's.
const ownSteps = 4

// underWay is a step that has begun and not ended.
type underWay struct {
	name        string
	at          clock.Time
	before      load.Progress
	waits       bool // for what first, done and total count
	first       int  // that was there before
	done, total int
}

// board collects what the status is made of.
type board struct {
	r         *run
	mu        sync.Mutex
	steps     []*underWay // in the order of their begin
	last      *underWay   // that began
	outer     *underWay   // that began when no other was under way: calls are counted from its begin
	begun, of int
	generator *load.Generator
	fleet     *fleet.Fleet
}

func newBoard(r *run) *board {
	b := &board{r: r, of: ownSteps + subjectSteps(r.scenario)}
	for range r.scenario.AllSteps() {
		b.of++
	}
	return b
}

// Enter begins a step; what it returns ends it.
func (b *board) Enter(step string) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := &underWay{name: step, at: b.r.clock.Now()}
	if b.generator != nil {
		one.before = b.generator.Progress()
	}
	b.begun++
	if len(b.steps) == 0 {
		b.outer = one
	}
	b.last, b.steps = one, append(b.steps, one)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.steps = slices.DeleteFunc(b.steps, func(s *underWay) bool { return s == one })
	}
}

// cleanUp says that what the run made is taken away again, which is no step.
func (b *board) cleanUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = &underWay{name: "clean-up", at: b.r.clock.Now()}
	if b.generator != nil {
		b.last.before = b.generator.Progress()
	}
	b.steps, b.outer = nil, b.last
}

// follow says what the progress is read from, as it comes into being.
func (b *board) follow(g *load.Generator, f *fleet.Fleet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generator, b.fleet = g, f
}

// stepName is the name of the step that began last, for the end of the run.
func (b *board) stepName() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return ""
	}
	return b.last.name
}

// Waiting says how far a step that waits has come.
func (b *board) Waiting(step string, done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.steps {
		if s.name != step {
			continue
		}
		if !s.waits {
			s.waits, s.first = true, done
		}
		s.done, s.total = done, total
	}
}

// shown is the step that the status tells of: the last one that runs.
func (b *board) shown() *underWay {
	if n := len(b.steps); n > 0 {
		return b.steps[n-1]
	}
	return b.last
}

// now computes the status.
func (b *board) now() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.r.clock.Now()
	s := Status{Index: b.begun, Of: b.of, Elapsed: time.Duration(t), Left: -1}
	step := b.shown()
	if step == nil {
		return s
	}
	s.Step, s.InStep, s.Done, s.Total = step.name, t.Sub(step.at), step.done, step.total
	first, since := step.first, step.at
	if n := len(b.steps); n > 1 {
		s.Step += fmt.Sprintf(" +%d", n-1)
	}
	if step.name == "populate" && b.fleet != nil {
		st := b.fleet.Stats()
		s.Done, s.Total = st.Schedulable, b.r.scenario.Fleet.Nodes
	}
	if g := b.generator; g != nil {
		p := g.Progress()
		s.Failed, s.Late = p.Failed+p.Lost, p.Late
		if p.Count > step.before.Count { // calls are sent: all of those at the same time are one sum
			first, since = 0, b.outer.at
			s.Done, s.Total, s.P99 = p.Ended-b.outer.before.Ended, p.Count-b.outer.before.Count, p.P99
			if !math.IsInf(p.Requested, 1) {
				s.Requested = p.Requested
			}
		}
	}
	s.pace(first, t.Sub(since))
	return s
}

// pace tells how fast Done has changed since it was first, and when it will be
// Total at that rate. What is waited for until it is gone counts down.
func (s *Status) pace(first int, took time.Duration) {
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

// loop reports the status now and then until ctx ends: to who asked for it, and
// in the run directory, for the live page.
func (b *board) loop(ctx context.Context) {
	o := b.r.options
	tell := time.NewTicker(max(o.StatusEvery, 100*time.Millisecond))
	defer tell.Stop()
	write := time.NewTicker(statusEvery)
	defer write.Stop()
	for {
		select {
		case <-tell.C:
			if o.Status != nil {
				o.Status(b.now())
			}
		case <-write.C:
			// Without it only the live page's first line is missing.
			_ = b.r.dir.WriteJSON(record.StatusFile, b.now().record())
		case <-ctx.Done():
			return
		}
	}
}

// record is the status as the run directory has it.
func (s Status) record() record.Status {
	left := s.Left.Seconds()
	if s.Left < 0 {
		left = -1
	}
	return record.Status{
		Step: s.Step, Index: s.Index, Of: s.Of, Elapsed: s.Elapsed.Seconds(), Done: s.Done, Total: s.Total,
		Requested: s.Requested, Achieved: s.Achieved, P99: s.P99.Seconds(), Failed: s.Failed, Late: s.Late, Left: left,
	}
}
