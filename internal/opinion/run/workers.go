package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Worker is what one of several processes did that shared a run.
type Worker struct {
	Index    int
	Fleet    bool          // it kept a share of the nodes alive, and sent no load
	Calls    int           // attempts of the load
	Late     int           // sent more than Late after they were due
	Lateness time.Duration // the most
	// Skew is how late the first call of a part of the load was sent, the most of all
	// parts: beside Bound it is by how much workers can have begun one after another.
	Skew  time.Duration
	Skews []time.Duration // of each part of which it sent a call
	Bound time.Duration   // by how much its clock may have been off, the most of all times that calls were due
	// Jumped says that its clock was set, or slewed faster than clocks may.
	Jumped     bool
	CPUSeconds float64
	Memory     float64        // bytes, at most
	Lost       string         // why nothing more was heard of it; empty: it was finished
	LostIn     string         // the step
	Unknown    map[string]int // calls that were due and of which nobody knows what became, by step
	CutOff     bool           // its records do not end with a whole block
	Missing    bool           // there are none

	readings record.Readings
	due      map[string]int // calls that were its own, by step
	ended    map[string]int // of those the ones that ended or were left out
	starts   []partStart
	first    float64 // reading of its CPU time
	sampled  bool
}

// partStart is a common start, and how late the first call after it was.
type partStart struct {
	step  string
	at    clock.Time
	first clock.Time // due time of the first call
	late  time.Duration
	any   bool
}

// UnknownCalls is how many calls of a worker nobody knows the end of.
func (w *Worker) UnknownCalls() (n int) {
	for _, calls := range w.Unknown {
		n += calls
	}
	return n
}

// workerEvent takes an event about a worker.
func (c *collector) workerEvent(e record.Event) {
	if e.Worker < 0 || e.Worker >= record.MaxWorkers {
		c.stream.Refuse(fmt.Errorf("it tells of worker %d", e.Worker))
		return
	}
	w := c.workerOf(e.Worker)
	switch e.Type {
	case record.EventWorkerClock:
		w.readings.Add(e)
		w.Bound, w.Jumped = max(w.Bound, e.Bound), w.Jumped || e.Jumped
	case record.EventWorkerShare:
		w.due[e.Name] += e.Count
		w.starts = append(w.starts, partStart{step: e.Name, at: e.At})
	case record.EventWorkerLost:
		if w.Lost == "" {
			w.Lost, w.LostIn = e.Text, e.Name
		}
	}
}

// workerOf returns what is known of a worker.
func (c *collector) workerOf(index int) *Worker {
	for len(c.f.Workers) <= index {
		c.f.Workers = append(c.f.Workers, &Worker{Index: len(c.f.Workers), due: map[string]int{}, ended: map[string]int{}, Unknown: map[string]int{}})
	}
	return c.f.Workers[index]
}

// workerVisitor visits a worker's stream: its calls are the run's, at the times of the
// run's clock. Of its samples the CPU and memory of its own process are wanted.
func (c *collector) workerVisitor(w *Worker) func(*record.Stream) record.Visitor {
	return func(s *record.Stream) record.Visitor {
		from, failed := &source{stream: s, worker: true}, map[Failure]record.Failure{}
		return record.Visitor{
			Call: func(v record.Call) {
				v = w.readings.Move(v)
				c.addCall(from, v)
				w.addCall(s.Ops[v.Op], v)
			},
			LeftOut: func(l record.LeftOut) { w.ended[s.Ops[l.Op].Step]++ },
			Sample:  func(x record.Sample) { w.addSample(s.Series[x.Series], x) },
			Event: func(e record.Event) {
				if e.Type == record.EventCallsFailed && e.Failure != nil {
					c.workerFailed(e, failed)
				}
			},
		}
	}
}

// addCall counts a call of the worker, at the run's times.
func (w *Worker) addCall(op record.Op, v record.Call) {
	if op.Source != Load {
		return
	}
	w.Calls++
	if v.Lateness() > record.Late {
		w.Late++
	}
	w.Lateness = max(w.Lateness, v.Lateness())
	if !v.Again && !v.More {
		w.ended[op.Step]++
	}
	if v.Attempt > 0 {
		return
	}
	// The last start before the call is due, of its step.
	for i := len(w.starts) - 1; i >= 0; i-- {
		if s := &w.starts[i]; s.step == op.Step && v.Due >= s.at.Add(-w.Bound) {
			if !s.any || v.Due < s.first {
				s.first, s.late, s.any = v.Due, v.Lateness(), true
			}
			break
		}
	}
}

func (w *Worker) addSample(s record.Series, x record.Sample) {
	if s.Target != Instrument {
		return
	}
	switch s.Name {
	case CPUSeries:
		if !w.sampled {
			w.first, w.sampled = x.Value, true
		}
		w.CPUSeconds = x.Value - w.first
	case MemorySeries, peakSize:
		w.Memory = max(w.Memory, x.Value)
	}
}

// workerFailed adds what a worker's event of failed calls has more than its one before:
// workers fail in the same ways, and count by themselves.
func (c *collector) workerFailed(e record.Event, before map[Failure]record.Failure) {
	key := Failure{Step: e.Name, Failure: *e.Failure}
	key.Object, key.Count, key.Retried = "", 0, 0
	more := Failure{Step: e.Name, Message: e.Text, Failure: *e.Failure}
	last := before[key]
	before[key] = *e.Failure
	more.Count, more.Retried = max(0, more.Count-last.Count), max(0, more.Retried-last.Retried)
	if i, ok := c.failures[key]; ok {
		c.f.Failures[i].Count += more.Count
		c.f.Failures[i].Retried += more.Retried
		return
	}
	c.failures[key] = len(c.f.Failures)
	c.f.Failures = append(c.f.Failures, more)
}

// finishCalls works out what became of the worker's calls.
func (w *Worker) finishCalls() {
	w.Skew, w.Skews = 0, nil
	for _, s := range w.starts {
		if s.any {
			w.Skews = append(w.Skews, s.late)
			w.Skew = max(w.Skew, s.late)
		}
	}
	w.Unknown = map[string]int{}
	for step, n := range w.due {
		if n > w.ended[step] {
			w.Unknown[step] = n - w.ended[step]
		}
	}
}

// readWorkers reads the streams of the workers of a run.
func (c *collector) readWorkers(dir record.Dir, m record.Manifest) error {
	if m.Workers == nil {
		return nil
	}
	if m.Workers.Count < 0 || m.Workers.Count > record.MaxWorkers {
		return fmt.Errorf("%s: %s are more than a run may have", dir.File(record.ManifestFile), unit.Count(m.Workers.Count, "workers"))
	}
	for i := range m.Workers.Count {
		w := c.workerOf(i)
		w.Fleet = m.Workers.KeepsNodes(i)
		s, err := dir.ReadStream(record.WorkerFile(i), c.workerVisitor(w))
		switch {
		case record.NoStream(err):
			w.Missing = true // it never brought any
		case err != nil:
			return err
		default:
			w.CutOff = s.CutOff
		}
		w.finishCalls()
	}
	return nil
}

// Senders are the workers that sent load.
func (f *Facts) Senders() (n int) {
	for _, w := range f.Workers {
		if !w.Fleet {
			n++
		}
	}
	return n
}

// WorkersLost names the workers that were lost, "worker 2 and worker 5".
func (f *Facts) WorkersLost() (names []string) {
	for _, w := range f.Workers {
		if w.Lost != "" {
			names = append(names, fmt.Sprintf("worker %d", w.Index))
		}
	}
	return names
}

// Join puts names in a row, as a sentence has them.
func Join(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// ClockBound is by how much the clock of a worker may be off before its calls cannot be
// put in one order with those of others.
const ClockBound = 10 * time.Millisecond

// Apart says why moments at different workers cannot be compared; empty where they can.
// Latencies can always be: each is of one worker's clock.
func (f *Facts) Apart() string {
	for _, w := range f.Workers {
		switch {
		case w.Fleet: // its calls are those of nodes, which nobody puts in one order
		case w.Jumped:
			return fmt.Sprintf("the clock of worker %d was set, or went faster than clocks may", w.Index)
		case w.Bound > ClockBound:
			return fmt.Sprintf("the clock of worker %d may have been off by %v, at most %v may be", w.Index, w.Bound.Round(time.Microsecond), ClockBound)
		case w.Skew > record.Late:
			return fmt.Sprintf("worker %d began a part of the load %v late, at most %v may be", w.Index, w.Skew.Round(time.Millisecond), record.Late)
		}
	}
	return ""
}

// Together tells whether the rate of a span of calls is known: of a short one it is not
// where moments at different workers cannot be compared.
func (f *Facts) Together(s Span) bool {
	return f.Senders() < 2 || s.Seconds() >= 1 || f.Apart() == ""
}

// StartSkews are by how much the workers began late, of every part of the load, the
// least first.
func (f *Facts) StartSkews() (out []time.Duration) {
	for _, w := range f.Workers {
		out = append(out, w.Skews...)
	}
	slices.Sort(out)
	return out
}

// EndedCalls visits the calls in a worker's stream that nothing follows: no retry, no
// page, no call that depends on its answer. Times are the worker's own.
func EndedCalls(dir record.Dir, worker int, visit func(op record.Op, v record.Call)) error {
	_, err := dir.ReadStream(record.WorkerFile(worker), func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(v record.Call) {
			if v.Number > 0 && !v.Again && !v.More {
				visit(s.Ops[v.Op], v)
			}
		}}
	})
	return err
}
