package report

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// tally is what one pass over the records leaves.
type tally struct {
	span   span
	base   grid // counts are made in this
	heat   grid // heat maps are
	stream *record.Stream
	steps  []Step
	marks  []record.Event // without those of steps and of complete scrapes
	scrape int            // complete scrapes
	begin  clock.Time     // of the run itself, after boot and populate
	end    clock.Time     // of the run itself, before it cleans up
	lives  *allLives
	calls  *calls
	usage  *usage
	queues *queues
}

// readTally reads the stream twice: the first pass finds the run's span and its
// steps, so that the second one counts straight into its bins and a run of many
// million calls needs no more memory than its latencies.
func readTally(path string) (*tally, error) {
	t := &tally{}
	if err := t.survey(path); err != nil {
		return nil, err
	}
	t.prepare()
	var err error
	t.stream, err = record.Read(path, t.visitor)
	return t, err
}

// prepare makes room for what is counted over the tally's span.
func (t *tally) prepare() {
	t.base = newGrid(t.span, baseBins, 0)
	t.heat = newGrid(t.span, heatBins, t.base.width)
	t.lives, t.usage, t.queues = newAllLives(), newUsage(), newQueues()
}

// visitor counts.
func (t *tally) visitor(s *record.Stream) record.Visitor {
	t.calls = newCalls(t, s)
	return record.Visitor{
		Call:   t.calls.visit,
		Event:  t.calls.mark,
		Phase:  func(p record.Phase) { t.lives.visit(s, p) },
		Sample: func(v record.Sample) { t.usage.visit(s, v); t.queues.visit(s, v) },
		Gone:   t.queues.gone,
	}
}

// survey finds the span, the steps and the marks.
func (t *tally) survey(path string) error {
	var s surveyor
	_, err := record.Read(path, func(*record.Stream) record.Visitor { return s.visitor() })
	if err != nil {
		return err
	}
	t.found(s)
	return nil
}

// visitor looks.
func (s *surveyor) visitor() record.Visitor {
	return record.Visitor{
		Call:   func(c record.Call) { s.see(c.Due); s.see(c.Done) },
		Phase:  func(p record.Phase) { s.see(p.At) },
		Sample: func(v record.Sample) { s.see(v.At) },
		Event:  func(m record.Event) { s.see(m.At); s.mark(m) },
	}
}

// found takes over what a survey found. The survey itself stays as it is.
func (t *tally) found(s surveyor) {
	s.steps = slices.Clone(s.steps)
	for i := range s.steps {
		if !s.steps[i].Ended {
			s.steps[i].to = s.span.to
		}
	}
	slices.SortStableFunc(s.steps, func(a, b Step) int { return int(a.from - b.from) })
	t.span, t.steps, t.marks, t.scrape = s.span, s.steps, s.marks, s.scrapes
	t.begin, t.end = s.span.from, s.span.to
	if s.begin != nil {
		t.begin = *s.begin
	}
	if s.end != nil {
		t.end = *s.end
	}
}

type surveyor struct {
	span    span
	began   bool
	steps   []Step
	marks   []record.Event
	scrapes int
	begin   *clock.Time
	end     *clock.Time
}

func (s *surveyor) see(at clock.Time) {
	if !s.began {
		s.span, s.began = span{at, at}, true
	}
	s.span.from, s.span.to = min(s.span.from, at), max(s.span.to, at)
}

func (s *surveyor) mark(m record.Event) {
	switch m.Type {
	case record.EventStepBegan:
		s.steps = append(s.steps, newStep(m))
	case record.EventStepEnded:
		if step := s.step(m.Name); step != nil {
			step.Ended, step.to, step.Note = true, m.At, m.Text
		}
	case record.EventLoadAsked:
		if step := s.step(m.Name); step != nil {
			step.Requested, step.Rate = m.Count, m.Rate
		}
	case record.EventScraped:
		s.scrapes++
	case record.EventRunBegan:
		s.begin = &m.At
		s.marks = append(s.marks, m)
	case record.EventRunEnded:
		s.end = &m.At
		s.marks = append(s.marks, m)
	default:
		s.marks = append(s.marks, m)
	}
}

// step returns the latest step of a name.
func (s *surveyor) step(name string) *Step {
	for i := len(s.steps) - 1; i >= 0; i-- {
		if s.steps[i].Name == name {
			return &s.steps[i]
		}
	}
	return nil
}

// Step is one step of the scenario as it went.
type Step struct {
	Name      string
	from, to  clock.Time
	Ended     bool   // false when the run ended in it
	Note      string // why it did not do what it should; empty when it did
	Requested int    // calls asked of the load
	Rate      float64
	Calls     int // load calls that fell due
	OK        int // of those, answered with success
	firstDue  clock.Time
	lastDone  clock.Time
}

func newStep(m record.Event) Step {
	return Step{Name: m.Name, from: m.At, to: m.At}
}

// took is how long the step lasted, in seconds.
func (s Step) took() float64 { return s.to.Sub(s.from).Seconds() }

// achieved is how many successful calls per second were answered from the first
// due time to the last answer; 0 when that took no time.
func (s Step) achieved() float64 {
	if d := s.lastDone.Sub(s.firstDue).Seconds(); d > 0 {
		return float64(s.OK) / d
	}
	return 0
}

func (s *Step) count(c record.Call) {
	if s.Calls == 0 {
		s.firstDue, s.lastDone = c.Due, c.Done
	}
	s.Calls++
	s.firstDue, s.lastDone = min(s.firstDue, c.Due), max(s.lastDone, c.Done)
	if c.Outcome == record.OK {
		s.OK++
	}
}
