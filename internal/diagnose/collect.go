package diagnose

import (
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// bearable is how much later than due a call of the load or of a simulated node
// may be sent without being held against windtunnel: the bound that verdicts use.
const bearable = 100 * time.Millisecond

// Collect reads what the records say of calls and phases, and finds the window.
// Ask adds what the series say.
func Collect(path string, m record.Manifest) (*Facts, error) {
	c := &collector{scrapes: map[string][]clock.Time{}, renewalMay: max(bearable, time.Duration(m.Fleet.LeaseSeconds/4*float64(time.Second)))}
	if _, err := record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Event:  c.mark,
			Call:   func(v record.Call) { c.call(s.Ops[v.Op], v) },
			Phase:  func(p record.Phase) { c.active(p.At) },
			Scrape: func(s record.Scrape) { c.scraped(s.Target, s.At) },
		}
	}); err != nil {
		return nil, err
	}
	f := &Facts{Epoch: m.Started, Machine: m.Machine, Components: m.Processes(), Remote: m.Plane.Kind == "kubeconfig", Deaths: c.deaths}
	if !c.began {
		return f, nil // nothing was measured
	}
	from := c.begin
	if c.asked {
		from = max(from, c.first)
	}
	f.Window = newWindow(from, max(from, c.counted()))
	f.Load, f.Fleet = c.load.waiting(f.Window), c.fleet.waiting(f.Window)
	return f, nil
}

// collector reads a stream once.
type collector struct {
	begin, end   clock.Time
	began, ended bool
	first, last  clock.Time // of what the load asked and set in motion
	asked        bool
	load, fleet  tally
	deaths       []Death
	renewalMay   time.Duration // be late
	scrapes      map[string][]clock.Time
}

func (c *collector) scraped(target string, at clock.Time) {
	c.scrapes[target] = append(c.scrapes[target], at)
}

// counted returns when every target had been scraped after the last thing that
// the load set in motion: only then do its series have all of it. A target that
// was not scraped any more is not waited for.
func (c *collector) counted() clock.Time {
	out := c.last
	for _, all := range c.scrapes {
		i, _ := slices.BinarySearch(all, c.last)
		if i < len(all) {
			out = max(out, all[i])
		}
	}
	return out
}

func (c *collector) mark(m record.Event) {
	switch m.Type {
	case record.EventRunBegan:
		c.begin, c.last, c.began = m.At, m.At, true
	case record.EventRunEnded:
		c.end, c.ended = m.At, true
	case record.EventStepEnded:
		c.active(m.At) // a wait may be for what no call and no phase shows
	case record.EventScraped:
		c.scraped(m.Name, m.At)
	case record.EventDied:
		c.deaths = append(c.deaths, Death{m.Name, m.Text})
	}
}

// during reports whether something belongs to the run itself.
func (c *collector) during() bool { return c.began && !c.ended }

func (c *collector) active(at clock.Time) {
	if c.during() {
		c.last = max(c.last, at)
	}
}

func (c *collector) call(op record.Op, v record.Call) {
	if !c.during() {
		return
	}
	switch op.Source {
	case "load":
		if !c.asked || v.Due < c.first {
			c.first, c.asked = v.Due, true
		}
		c.active(v.Done)
		c.load.add(v, bearable)
	case "fleet":
		switch {
		case op.Verb == "get" || op.Verb == "list" || op.Verb == "watch":
		case strings.HasPrefix(op.Resource, "leases") && op.Verb == "update":
			c.fleet.add(v, c.renewalMay)
		default:
			c.fleet.add(v, bearable)
		}
	}
}

// tally adds up the time that calls waited, second by second of the run's clock.
type tally struct {
	overdue, inFlight []float64
	late, calls       int
	worst             time.Duration
}

func (t *tally) add(v record.Call, may time.Duration) {
	t.calls++
	t.worst = max(t.worst, v.Lateness())
	spread(&t.inFlight, v.Due, v.Done)
	if v.Lateness() > may {
		t.late++
		spread(&t.overdue, v.Due.Add(may), v.Sent)
	}
}

// spread adds the time from one moment to another to the seconds it lies in.
func spread(seconds *[]float64, from, to clock.Time) {
	from = max(from, 0)
	for from < to {
		i := int(from / clock.Time(time.Second))
		for len(*seconds) <= i {
			*seconds = append(*seconds, 0)
		}
		next := min(to, clock.Time(i+1)*clock.Time(time.Second))
		(*seconds)[i] += next.Sub(from).Seconds()
		from = next
	}
}

// waiting brings the seconds into a window's slices.
func (t *tally) waiting(w Window) Waiting {
	return Waiting{Overdue: inSlices(t.overdue, w), InFlight: inSlices(t.inFlight, w), Late: t.late, Calls: t.calls, Worst: t.worst}
}

// inSlices returns the mean over each slice. A second that lies in two of them
// belongs to each with its part.
func inSlices(seconds []float64, w Window) []float64 {
	out := make([]float64, w.Slices)
	step := w.Step()
	if step <= 0 {
		return out
	}
	for i, v := range seconds {
		begin, end := clock.Time(i)*clock.Time(time.Second), clock.Time(i+1)*clock.Time(time.Second)
		for k := max(0, int(begin.Sub(w.From)/step)); v > 0 && k < w.Slices; k++ {
			from := max(begin, w.From.Add(time.Duration(k)*step))
			to := min(end, w.From.Add(time.Duration(k+1)*step))
			if to <= from {
				break
			}
			out[k] += v * to.Sub(from).Seconds() / step.Seconds()
		}
	}
	return out
}
