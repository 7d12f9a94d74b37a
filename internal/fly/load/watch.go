package load

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
)

// watches are those of a flight.
type watches struct {
	own            map[*wire.Request]bool // guarded by the flight's mu
	any            atomic.Bool
	open           atomic.Int64
	events, bytes  atomic.Int64
	opened, broken atomic.Int64
	ended          [endReasons]atomic.Int64  // of clients, before their time
	informers      atomic.Pointer[informers] // nil: the plan has none
	nextSample     clock.Time                // the pace's goroutine's own
}

// sampleEvery is how often the watches' figures are written down.
const sampleEvery = time.Second

// sampleIfDue writes the figures when it is time to, and returns when it is next.
func (w *watches) sampleIfDue(f *flight) clock.Time {
	if !w.any.Load() {
		return distant
	}
	if now := f.g.options.Clock.Now(); now >= w.nextSample {
		w.nextSample = now.Add(sampleEvery)
		w.writeSamples(f)
	}
	return w.nextSample
}

// writeSamples writes the figures: gauges and counters of the step.
func (w *watches) writeSamples(f *flight) {
	if !w.any.Load() {
		return
	}
	now := f.g.options.Clock.Now()
	for _, m := range []struct {
		name  string
		value int64
	}{
		{"windtunnel_load_watches_open", w.open.Load()},
		{"windtunnel_load_watches_opened_total", w.opened.Load()},
		{"windtunnel_load_watches_broken_total", w.broken.Load()},
		{"windtunnel_load_watch_events_total", w.events.Load()},
		{"windtunnel_load_watch_bytes_total", w.bytes.Load()},
	} {
		f.writeSample(now, m.name, float64(m.value))
	}
	if f.population == nil {
		return
	}
	clients := record.Label{Name: "clients", Value: f.population.Name}
	for reason, word := range [endReasons]string{"closed", "expired", "error"} {
		f.writeSample(now, "windtunnel_load_watches_ended_total", float64(w.ended[reason].Load()), clients, record.Label{Name: "reason", Value: word})
	}
	if f.population.Reader != nil {
		f.writeSample(now, "windtunnel_load_watch_unread_bytes", float64(f.population.mostUnread()), clients)
	}
	if i := w.informers.Load(); i != nil {
		i.writeSamples(f, now)
	}
}

// writeSample writes a figure of the step with more labels, whose names come before "step".
func (f *flight) writeSample(now clock.Time, name string, value float64, labels ...record.Label) {
	records := f.g.options.Records
	id := records.Series(record.Series{Target: "windtunnel", Name: name, Labels: append(labels, record.Label{Name: "step", Value: f.plan.stepName()})})
	records.Sample(record.Sample{Series: id, At: now, Value: value})
}

// Why watches of clients ended that were open.
const (
	endedClosed  = iota // the server closed it, or the connection was
	endedExpired        // its version is gone
	endedError          // another event ERROR, or a stream that broke
	endReasons
)

// countEnd counts a watch of clients that was open and ended before its time.
func (w *watches) countEnd(e informer.End) {
	reason := endedClosed
	switch {
	case e.How == informer.Failed && e.Code == http.StatusGone:
		reason = endedExpired
	case e.How == informer.Failed:
		reason = endedError
	}
	w.ended[reason].Add(1)
}

// hold is a watch that is being opened or held.
type hold struct {
	call
	g       *Generator
	req     Request
	slot    *slot // until it is open
	initial bool  // open when the first bookmark is there
	first   wire.Response
	opened  clock.Time
	frames  frames

	// Of an informer:
	whole   bool          // it has all that exists
	marks   int           // bookmarks that came
	seen    []byte        // version of the last event; empty: the informer knows it
	failed  *informer.End // the server has ended the watch by an event
	refusal string        // what that event said
}

// holdWatch opens a slot's watch. The slot is free again when it is open: how many
// watches are held is the plan's affair.
func (s *slot) holdWatch() {
	f := s.flight
	if p := f.population; p != nil && p.Reader != nil && s.reader == nil {
		s.reader = p.Reader()
	}
	h := &hold{call: s.call, g: s.g, req: s.req, slot: s, initial: strings.Contains(s.req.Path, "sendInitialEvents=true")}
	h.req.Body = nil
	if h.req.Opened, h.req.Data = h.onResponse, h.onData; h.reader != nil {
		h.req.Read = h.reader.Read
	}
	if h.informing != nil {
		h.frames.see = h.seeEvent
	} else if h.until > 0 {
		h.req.Hold = max(time.Millisecond, h.until.Sub(s.g.options.Clock.Now()))
	}
	client, err := s.watchClient()
	if err != nil {
		s.countUnbuilt(err)
		return
	}
	f.mu.Lock()
	if f.watches.own == nil {
		f.watches.own = map[*wire.Request]bool{}
	}
	f.watches.own[&h.req.Request] = true
	f.mu.Unlock()
	if !f.watches.any.Swap(true) {
		f.alarm.wakeUp() // its figures are to be written
	}
	client.Send(&h.req.Request, h.onClosed)
}

// watchClient returns the client of a slot's watch: with a population the connection of the
// call's client, as real clients have it.
func (s *slot) watchClient() (*wire.Client, error) {
	if p := s.flight.population; p != nil {
		return p.connectionOf(s.index), nil
	}
	return s.g.targetOf(s.req.Member).watchClient(s.g.options)
}

func (h *hold) onResponse(r *wire.Response) {
	h.first = *r
	if h.reader != nil {
		h.reader.Begin(r.Done)
	}
	if !h.initial {
		h.recordOpened()
	}
}

func (h *hold) onData(p []byte) {
	events, bookmarks := h.frames.writePiece(p)
	w := &h.flight.watches
	w.events.Add(int64(events))
	w.bytes.Add(int64(len(p)))
	h.marks += bookmarks
	if h.initial && h.slot != nil && (h.whole || bookmarks > 0 && h.informing == nil) {
		h.recordOpened()
	}
}

// recordOpened records that the watch is open.
func (h *hold) recordOpened() {
	s, r := h.slot, h.first
	h.slot = nil
	r.Done = h.g.options.Clock.Now()
	r.ReceivedBytes = int(h.frames.bytes)
	h.opened = r.Done
	s.recordCall(record.OK, &r, false)
	w := &h.flight.watches
	switch {
	case h.informing != nil:
		w.informers.Load().countOpened(h)
	case h.flight.population != nil && h.until == 0:
		h.until = h.opened.Add(h.req.Hold)
	}
	w.open.Add(1)
	w.opened.Add(1)
	h.g.releaseSlot(s)
	h.flight.driveIfRoom()
	h.g.plane.client.Flush() // of calls that waited for the slot
}

// onClosed is told the end of the watch, or that it could not be opened.
func (h *hold) onClosed(r *wire.Response) {
	f := h.flight
	defer h.g.plane.client.Flush()
	f.mu.Lock()
	delete(f.watches.own, &h.req.Request)
	f.mu.Unlock()
	if h.informing != nil {
		h.endInforming(r)
		return
	}
	if s := h.slot; s != nil {
		s.handleResponse(r)
		return
	}
	h.reportClosed(r, true)
	if !h.reopen(r) {
		f.endCall()
	}
}

// reportClosed counts and reports that a watch that was open is closed; last says that its
// client sends nothing more.
func (h *hold) reportClosed(r *wire.Response, last bool) {
	w := &h.flight.watches
	w.open.Add(-1)
	if r.Err != nil {
		w.broken.Add(1)
	}
	if done := h.flight.plan.Done; done != nil {
		done(Result{
			Index: h.index, Op: h.req.Op, Attempt: h.attempt, Chain: h.chain, Last: last, Outcome: r.Outcome(), Response: r,
			Held: r.Done.Sub(h.opened), Events: h.frames.events, Bytes: h.frames.bytes,
		})
	}
}

// PauseBefore returns how long client i waits after so many failures before it opens its watch
// again, as an informer does.
func (c *Clients) PauseBefore(i, failures int) time.Duration {
	return informer.Pause(failures, fraction(c.Seed+uint64(i), failures))
}

// reopen has a client open its watch again that ended before its time, as an informer does:
// without a resource version, so that the server lists what exists once more.
func (h *hold) reopen(r *wire.Response) bool {
	f, now := h.flight, r.Done
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.until <= now || f.stopped {
		return false
	}
	f.watches.countEnd(h.watchEnd(r))
	next := call{flight: f, index: h.index, attempt: 1, due: now.Add(f.plan.Clients.PauseBefore(h.index, 0)), until: h.until, reader: h.reader}
	f.waitLocked(next)
	return true
}
