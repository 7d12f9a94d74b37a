package run

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Sources of calls, as package record has them in Op.Source.
const (
	Load  = "load"
	Fleet = "fleet"
)

// Leases is what nodes' leases are called in Op.Resource.
const Leases = "leases.coordination.k8s.io"

// Facts is what a record stream says, arranged for those who judge it.
type Facts struct {
	// Begin and End are the run's: the time that is judged. Without their
	// events they are the stream's first and last moment.
	Begin, End  clock.Time
	First, Last clock.Time               // moment of the stream, boot and clean-up included
	Ended       record.Event             // without Reason where the stream has no end
	CutOff      bool                     // the stream was cut off
	LostBytes   int64                    // of the cut off end
	Format      int                      // of the stream
	Unknown     map[record.EventType]int // events of a later version, which were skipped
	Events      []record.Event           // all but those of scrapes, in the order of time
	Steps       []Step                   // in the order of their begin
	Failures    []Failure                // ways in which calls failed, in the order of their first one
	Scrapes     int                      // complete ones
	NotScraped  map[string]int           // scrapes that failed, by target
	Cut         map[string]int           // targets that served so many series that nothing more was read of them
	Calls       []*Calls                 // of the run, by operation, in the order of definition
	Heat        []*Heat                  // likewise
	Clusters    []*Cluster               // members that calls were sent to, in the order of their first operation
	Timeline    *Timeline
	Waiting     Waiting
	Lifecycles  []*Lifecycles // by name, resource and group, in the order of their first object
	Series      *series.Store
	Accesses    map[string][]consistency.Access // of probe steps, by step
	Workers     []*Worker                       // who shared the load, by index; none: the leader sent it
}

// Step is one step of the scenario as it went.
type Step struct {
	Name     string
	From, To clock.Time
	Ended    bool          // false when the run ended in it
	Note     string        // why it failed; empty when it did not
	State    record.State  // with Note: how it ended, where the records say that
	Inside   string        // the step inside that failed
	Asked    record.Detail // of the load: Count, and Rate or Parallel
}

// Failure is a way in which calls of a step failed.
type Failure struct {
	Step    string
	Message string // of the first one
	record.Failure
}

// Calls sums up the calls of one operation.
type Calls struct {
	record.Op
	Latency  stats.Durations // Done-Due; a call without an answer lasted at least that long
	Service  stats.Durations // Done-Sent, likewise
	Lateness stats.Durations // Sent-Due without the wait for a limiter, without the fleet's calls to a member while a fault broke it
	Outcomes [3]int          // by record.Outcome
	Codes    map[uint16]int  // of failed calls, by HTTP status; 0: never sent
	Refused  map[uint16]int  // of those the ones that failed for good: they were not sent again
	Lost     int             // calls without an answer that were not sent again
	retries  int             // attempts after the first
	Late     int             // sent more than Late after they were due
	Sent     uint64          // bytes of bodies
	Received uint64          // bytes of bodies
	Due      Span            // first and last due time
	Done     Span            // first and last moment of an end, however the call ended
	Answered Span            // first and last moment of an answer with outcome OK
	Outages  Outages         // times in which calls were not served
}

// Count returns the number of calls.
func (c *Calls) Count() int { return c.Outcomes[0] + c.Outcomes[1] + c.Outcomes[2] }

// Labels are an operation's, by the names that objectives have for them.
func (c *Calls) Labels() map[string]string {
	return map[string]string{"source": c.Source, "step": c.Step, "verb": c.Verb, "resource": c.Resource,
		"subresource": c.Subresource, "scope": c.Scope, "cluster": c.Cluster, "connection": cmp.Or(c.Connection, "kept"), "clients": c.Clients}
}

// Span is the first and the last of some moments.
type Span struct {
	First, Last clock.Time
	Any         bool // there are some
}

// Add adds a moment.
func (s *Span) Add(t clock.Time) {
	if !s.Any {
		*s = Span{t, t, true}
	}
	s.First, s.Last = min(s.First, t), max(s.Last, t)
}

// Join adds the moments of another.
func (s *Span) Join(o Span) {
	if o.Any {
		s.Add(o.First)
		s.Add(o.Last)
	}
}

// Seconds is the time between the first and the last.
func (s *Span) Seconds() float64 { return s.Last.Sub(s.First).Seconds() }

// collector fills facts while a stream is read.
type collector struct {
	f        *Facts
	stream   *record.Stream
	source   *source             // of the leader's own calls
	byOp     map[record.Op]int   // of Facts.Calls
	heat     map[record.Op]*Heat // by operation without its step and its member
	whole    Span
	ended    bool
	begun    bool
	assigned []slot              // by record.ObjectID
	clusters map[string]*Cluster // by name
	groups   map[groupKey]*Lifecycles
	steps    map[string]int  // the last one of each name
	failures map[Failure]int // by all that tells them apart
	renewal  time.Duration   // that a lease may be renewed late
	broken   outages
}

// source is a stream that calls come from: each has operations of its own.
type source struct {
	stream *record.Stream
	places []int // of its operations in Facts.Calls
	worker bool  // a worker's: all of its calls are of the run
}

func newCollector(m record.Manifest) *collector {
	return &collector{
		f:      &Facts{Series: series.NewStore(), NotScraped: map[string]int{}, Cut: map[string]int{}, Accesses: map[string][]consistency.Access{}, Timeline: newTimeline()},
		byOp:   map[record.Op]int{},
		groups: map[groupKey]*Lifecycles{}, clusters: map[string]*Cluster{}, heat: map[record.Op]*Heat{}, steps: map[string]int{}, failures: map[Failure]int{},
		renewal: max(record.Late, time.Duration(m.Fleet.LeaseSeconds/4*float64(time.Second))), broken: outages{},
	}
}

// Collect reads the record stream at path once, of a run with this manifest. A
// stream that a crash cut off is not an error. Its memory is 12 bytes a call, 8
// for each phase of an object and 16 a sample.
func Collect(path string, m record.Manifest) (*Facts, error) {
	c := newCollector(m)
	s, err := record.Read(path, c.newVisitor)
	if err != nil {
		return nil, err
	}
	c.finishFacts(s)
	if err := c.readWorkers(record.Dir(filepath.Dir(path)), m); err != nil {
		return nil, err
	}
	for _, calls := range c.f.Calls { // one after another: while it is sorted a sample takes twice its memory
		var wait sync.WaitGroup
		wait.Go(calls.Latency.Sort)
		wait.Go(calls.Service.Sort)
		wait.Go(calls.Lateness.Sort)
		wait.Wait()
	}
	return c.f, nil
}

func (c *collector) newVisitor(s *record.Stream) record.Visitor {
	c.stream, c.source = s, &source{stream: s}
	v := c.f.Series.Visitor(s)
	sample, event, scrape := v.Sample, v.Event, v.Scrape
	v.Call, v.Phase = func(x record.Call) { c.addCall(c.source, x) }, c.addPhase
	v.Access = func(x record.Access) {
		op := s.Ops[x.Op]
		c.f.Accesses[op.Step] = append(c.f.Accesses[op.Step], consistency.Access{Verb: op.Verb, Access: x})
	}
	v.Sample = func(x record.Sample) { c.whole.Add(x.At); sample(x) }
	v.Event = func(e record.Event) { c.addEvent(e); event(e) }
	v.Scrape = func(x record.Scrape) { c.f.Scrapes++; scrape(x) }
	return v
}

// addCall takes a call. What was sent before the run's begin or after its end
// (boot, populate, clean up) is drawn and not judged.
func (c *collector) addCall(from *source, v record.Call) {
	if len(from.stream.Ops) > maxOps || len(c.f.Calls) > maxOps {
		from.stream.Refuse(fmt.Errorf("it has more than %d kinds of calls", maxOps))
		return
	}
	c.placeOps(from, int(v.Op)+1)
	at := from.places[v.Op]
	calls := c.f.Calls[at]
	c.whole.Add(v.Due)
	c.whole.Add(v.Done)
	from.stream.Spend(c.f.Heat[at].addCall(v.Done, v.Latency()))
	if calls.Source == Load {
		c.f.Timeline.addCall(v)
	}
	if calls.Cluster != "" {
		c.clusterOf(calls.Cluster).add(v)
	}
	if c.ended && !from.worker {
		return
	}
	held := calls.Source == Fleet && c.broken.wasBroken(calls.Cluster, v.Due, v.Sent)
	calls.addCall(v, held)
	if c.begun && !held {
		c.f.Waiting.addCall(calls.Op, v, c.renewal)
	}
}

// placeOps sees to it that a stream's first n operations have their places. The same
// operation of several streams has one.
func (c *collector) placeOps(from *source, n int) {
	for _, op := range from.stream.Ops[len(from.places):max(n, len(from.places))] {
		at, ok := c.byOp[op]
		if !ok {
			at = len(c.f.Calls)
			c.byOp[op] = at
			c.f.Calls, c.f.Heat = append(c.f.Calls, &Calls{Op: op}), append(c.f.Heat, c.heatOf(op))
		}
		from.places = append(from.places, at)
	}
}

// heatOf returns the heat map of an operation: steps and members share it.
func (c *collector) heatOf(op record.Op) *Heat {
	op.Step, op.Cluster = "", ""
	h := c.heat[op]
	if h == nil {
		h = &Heat{}
		c.heat[op] = h
	}
	return h
}

// addCall takes a call. What held up one that waited for a member broken on purpose was not
// the instrument: its lateness is not counted.
func (c *Calls) addCall(v record.Call, held bool) {
	c.Outcomes[v.Outcome]++
	c.Outages.Add(v)
	c.Sent += uint64(v.SentBytes)
	c.Received += uint64(v.ReceivedBytes)
	c.Due.Add(v.Due)
	c.Done.Add(v.Done)
	if !held {
		c.Lateness.Add(v.Lateness())
		if v.Lateness() > record.Late {
			c.Late++
		}
	}
	if v.Attempt > 0 {
		c.retries++
	}
	if v.ForGood() {
		c.addFailure(v)
	}
	switch v.Outcome {
	case record.Unknown:
		c.Latency.AddBetween(v.Latency(), stats.Forever)
		c.Service.AddBetween(v.Service(), stats.Forever)
		return
	case record.Failed:
		if c.Codes == nil {
			c.Codes = map[uint16]int{}
		}
		c.Codes[v.Code]++
	default:
		c.Answered.Add(v.Done)
	}
	c.Latency.Add(v.Latency())
	c.Service.Add(v.Service())
}

// FailedForGood counts the calls that failed for good by their HTTP status; 0
// stands for those that were never sent or not answered.
func (c *Calls) FailedForGood() map[int]int {
	out := map[int]int{}
	for code, n := range c.Refused {
		out[int(code)] += n
	}
	if c.Lost > 0 {
		out[0] += c.Lost
	}
	return out
}

// addFailure counts a call that failed for good.
func (c *Calls) addFailure(v record.Call) {
	if v.Outcome == record.Unknown {
		c.Lost++
		return
	}
	if c.Refused == nil {
		c.Refused = map[uint16]int{}
	}
	c.Refused[v.Code]++
}

// forgiveRetries takes back, of calls in records of format 1, as many failures as there
// were retries: these records do not say which calls were sent again.
func (c *Calls) forgiveRetries() {
	for _, code := range slices.Backward(slices.Sorted(maps.Keys(c.Refused))) { // 429 and 5xx rather than the others
		n := min(c.retries, c.Refused[code])
		c.retries -= n
		if c.Refused[code] -= n; c.Refused[code] == 0 {
			delete(c.Refused, code)
		}
	}
	n := min(c.retries, c.Lost)
	c.Lost, c.retries = c.Lost-n, c.retries-n
}

// addFailedCalls takes an event of failed calls: it has all that those before it of the
// same failure had.
func (c *collector) addFailedCalls(e record.Event) {
	if e.Failure == nil {
		return
	}
	one := Failure{Step: e.Name, Message: e.Text, Failure: *e.Failure}
	key := one
	key.Message, key.Object, key.Count, key.Retried = "", "", 0, 0
	if i, ok := c.failures[key]; ok {
		c.f.Failures[i].Count, c.f.Failures[i].Retried = one.Count, one.Retried
		return
	}
	c.failures[key] = len(c.f.Failures)
	c.f.Failures = append(c.f.Failures, one)
}

func (c *collector) addEvent(e record.Event) {
	c.whole.Add(e.At)
	switch e.Type {
	case record.EventScraped:
		c.f.Scrapes++
		return
	case record.EventScrapeFailed:
		c.f.NotScraped[e.Name]++
		return
	case record.EventCut:
		c.f.Cut[e.Name] = e.Count
	case record.EventCallsFailed:
		c.addFailedCalls(e)
		return
	case record.EventRunBegan:
		if c.begun {
			break // there is one
		}
		c.f.Begin, c.begun = e.At, true
		for i, calls := range c.f.Calls {
			c.f.Calls[i] = &Calls{Op: calls.Op}
		}
		c.f.Waiting = Waiting{Last: e.At}
	case record.EventRunEnded:
		c.noteBusy(e.At)
		c.f.End, c.ended = e.At, true
		c.f.Ended = e
	case record.EventWorkerClock, record.EventWorkerShare, record.EventWorkerLost:
		c.workerEvent(e)
	case record.EventFault:
		c.broken.addFault(e)
	default:
		c.addStepEvent(e)
	}
	c.f.Events = append(c.f.Events, e)
}

// addStepEvent takes an event of a step.
func (c *collector) addStepEvent(e record.Event) {
	if e.Type == record.EventStepBegan {
		if len(c.f.Steps) >= maxSteps {
			c.stream.Refuse(fmt.Errorf("it has more than %d steps", maxSteps))
			return
		}
		c.steps[e.Name] = len(c.f.Steps)
		c.f.Steps = append(c.f.Steps, Step{Name: e.Name, From: e.At, To: e.At})
		return
	}
	if e.Type == record.EventStepEnded {
		c.noteActive(e.At) // a wait may be for what no call and no phase shows
	}
	i, ok := c.steps[e.Name]
	switch {
	case !ok && e.Type != record.EventStepEnded:
		return
	case !ok: // an end without a begin counts: it may say that the step failed
		i = len(c.f.Steps)
		c.steps[e.Name] = i
		c.f.Steps = append(c.f.Steps, Step{Name: e.Name, From: e.At})
	}
	switch s := &c.f.Steps[i]; e.Type {
	case record.EventStepEnded:
		s.Ended, s.To, s.Note, s.State, s.Inside = true, e.At, e.Text, e.State, e.Step
	case record.EventLoadAsked:
		s.Asked = e.Detail
	}
}

// noteActive notes that what the load set in motion was not at rest yet.
func (c *collector) noteActive(at clock.Time) {
	if c.begun && !c.ended {
		c.f.Waiting.Last = max(c.f.Waiting.Last, at)
	}
}

// noteBusy notes that a step was under way until a moment, if one was: what it waited for
// was not at rest.
func (c *collector) noteBusy(until clock.Time) {
	if slices.ContainsFunc(c.f.Steps, func(s Step) bool { return !s.Ended }) {
		c.noteActive(until)
	}
}

// finishFacts arranges what has been read for those who read it. It may be called
// again when more has been read.
func (c *collector) finishFacts(s *record.Stream) {
	f := c.f
	f.CutOff, f.LostBytes, f.Format, f.Unknown = s.CutOff, s.LostBytes, s.Format, s.UnknownEvents
	f.First, f.Last = c.whole.First, c.whole.Last
	c.noteBusy(f.Last)
	if !c.begun {
		f.Begin = f.First
	}
	if !c.ended {
		f.End = f.Last
	}
	for i := range f.Steps {
		if !f.Steps[i].Ended {
			f.Steps[i].To = f.Last
		}
	}
	if s.Format == 1 {
		for _, calls := range f.Calls {
			calls.forgiveRetries()
		}
	}
	c.placeOps(c.source, len(s.Ops)) // also those without a call
}

// Began reports whether the run got as far as its first step.
func (f *Facts) Began() bool { return len(f.EventsOf(record.EventRunBegan)) > 0 }

// EventsOf returns the events of a type, in the order of time.
func (f *Facts) EventsOf(what record.EventType) []record.Event {
	var out []record.Event
	for _, e := range f.Events {
		if e.Type == what {
			out = append(out, e)
		}
	}
	return out
}
