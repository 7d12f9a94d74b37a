package load

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
)

// informing is the informer of a client. Its requests follow one another, so nothing of it
// is guarded: each hands it to the next.
type informing struct {
	informer.Informer
	seed  uint64
	draws int
	until clock.Time // it informs itself
	began clock.Time // the request under way did
	ended clock.Time // the watch did that was open; 0: it is open, or none was yet
}

func newInforming(now clock.Time, req *Request, seed uint64) *informing {
	n := &informing{Informer: informer.New(req.Informer, now), seed: seed, until: now.Add(req.Hold)}
	n.First(n.draw())
	return n
}

// draw returns the next random number in [0, 1).
func (n *informing) draw() float64 {
	n.draws++
	return fraction(n.seed, n.draws)
}

// askQuery returns the query of a request, to which the form's may be added.
func askQuery(a informer.Ask) string {
	query := url.Values{}
	if a.Version != "" {
		query.Set("resourceVersion", a.Version)
	}
	if a.Kind == informer.ListPage {
		if a.Limit > 0 {
			query.Set("limit", strconv.Itoa(a.Limit))
		}
		if a.Continue != "" {
			query.Set("continue", a.Continue)
		}
		return query.Encode()
	}
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("timeoutSeconds", strconv.Itoa(int(a.Timeout.Seconds())))
	if a.Kind == informer.InitialWatch {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	return query.Encode()
}

// fillAsk makes the slot's request the one that its informer sends next.
func (s *slot) fillAsk() {
	now := s.g.options.Clock.Now()
	if s.informing == nil {
		s.informing = newInforming(now, &s.req, s.flight.population.Seed+uint64(s.index))
		s.flight.watches.informers.CompareAndSwap(nil, &informers{})
	}
	ask := s.informing.Asked()
	if query := askQuery(ask); query != "" {
		if strings.Contains(s.req.Path, "?") {
			s.req.Path += "&" + query
		} else {
			s.req.Path += "?" + query
		}
	}
	s.informing.began = now
	if ask.Kind != informer.ListPage {
		s.req.Hold = max(time.Millisecond, s.informing.until.Sub(now))
		return
	}
	s.req.Op, s.req.Hold = s.req.ListOp, 0
	s.scan.beginPage(s.req.Path, "")
	s.req.Data = s.data
}

// endList is told the end of an informer's list.
func (s *slot) endList(r *wire.Response) {
	e := endOf(r)
	if r.Outcome() == record.OK {
		e.How, e.Version, e.Continue = informer.Answered, s.scan.version, s.scan.nextToken()
	}
	s.endAsk(r, requestEnd{End: e, at: r.Done, outcome: r.Outcome()})
}

// endOf says how a request ended that brought no list and was no watch that was open.
func endOf(r *wire.Response) informer.End {
	e := informer.End{Code: r.Code, RetryAfter: r.RetryAfter}
	switch {
	case r.Err == nil && !r.Success():
		e.How, e.TooLarge = informer.Refused, isTooLarge(r.Body)
	case errors.Is(r.Err, syscall.ECONNREFUSED):
		e.How = informer.Unreachable
	case r.Code == 0 && isClosing(r.Err):
		e.How = informer.Cut
	default:
		e.How = informer.Unanswered
	}
	return e
}

// isClosing tells whether the connection was closed or reset, in its handshake or later.
func isClosing(err error) bool {
	if errors.Is(err, wire.ErrSilent) || errors.Is(err, wire.ErrReset) {
		return false
	}
	return errors.Is(err, wire.ErrLost) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// isTooLarge tells whether a status says that the server does not have a version yet.
func isTooLarge(status []byte) bool {
	return bytes.Contains(status, []byte("ResourceVersionTooLarge"))
}

// requestEnd is how a request of an informer ended.
type requestEnd struct {
	informer.End
	at      clock.Time
	outcome record.Outcome
	watch   bool // it was a watch
	open    bool // which was open
	stopped bool // the client itself closed its connection
}

// followUp is what follows from the end of a request of an informer.
type followUp struct {
	outcome record.Outcome // that is recorded of the request
	lost    bool           // an open watch ended before its time
	over    bool           // the informer's time is over: it sends nothing more
	due     clock.Time     // of the next request
	charged bool           // the client's rate limiter does not count the next request
	failed  bool           // the next request is another attempt
}

// follow decides what follows from the end of the request under way.
func (n *informing) follow(e requestEnd) followUp {
	early := e.at < n.until && !e.stopped
	next := followUp{outcome: e.outcome, lost: e.open && early, failed: e.How != informer.Answered && e.How != informer.Closed}
	if e.watch && !e.open && early && e.outcome == record.OK {
		next.outcome = record.Failed // it ended before it was open
	}
	ask := n.End(e.at, e.End, n.draw())
	next.due, next.charged = e.at.Add(ask.Pause), !ask.Limited
	next.over = next.due >= n.until
	return next
}

// callAfter returns the call that sends an informer's next request.
func (c *call) callAfter(f followUp) call {
	next := call{flight: c.flight, index: c.index, informing: c.informing, reader: c.reader, due: f.due, charged: f.charged}
	if f.failed {
		next.attempt = min(c.attempt+1, maxAttempt)
	}
	return next
}

// endAsk does what follows from the end of an informer's request that has a slot.
func (s *slot) endAsk(r *wire.Response, e requestEnd) {
	f, n := s.flight, s.informing
	if n.Asked().Relist {
		f.watches.informers.Load().countRelist(r.ReceivedBytes, e.How == informer.Answered && e.Continue == "")
	}
	next := n.follow(e)
	result := s.recordCall(next.outcome, r, next.outcome != record.OK && !next.over)
	result.Last = next.over
	s.reportResult(result)
	if next.over || !f.queueAsk(s.callAfter(next)) {
		s.endCall()
		return
	}
	s.g.releaseSlot(s)
	f.sendDue()
}

// maxAttempt is the highest number of an attempt: the records have a byte for it.
const maxAttempt = 255

// queueAsk puts an informer's next call among those that wait; false when the flight was
// stopped.
func (f *flight) queueAsk(c call) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.waitLocked(c)
	return true
}

// seeEvent takes an event of an informer's watch.
func (h *hold) seeEvent(head []byte, isProtobuf bool) {
	n := h.informing
	kind, version, failed := readEvent(head, isProtobuf)
	switch {
	case failed != nil:
		h.failed, h.refusal = &informer.End{How: informer.Failed, Code: failed.Code, TooLarge: isTooLarge(head)}, failed.Message
		h.flight.population.connectionOf(h.index).CloseHeld(func(r *wire.Request) bool { return r == &h.req.Request })
	case kind == informer.InitialEnd:
		h.whole, h.seen = n.See(kind, string(version)), h.seen[:0]
	case kind != informer.Added || n.Asked().Kind == informer.Watch || h.whole:
		// The last one will do: only where the watch ends is it asked what it has come to.
		h.seen = append(h.seen[:0], version...)
	}
}

// endInforming is told the end of an informer's watch.
func (h *hold) endInforming(r *wire.Response) {
	if len(h.seen) > 0 {
		h.informing.See(informer.Changed, string(h.seen))
	}
	if h.slot != nil && h.failed != nil {
		r.Code, r.Body = h.failed.Code, []byte(h.refusal)
	}
	e := requestEnd{End: h.watchEnd(r), at: r.Done, outcome: r.Outcome(), watch: true, open: h.slot == nil, stopped: errors.Is(r.Err, wire.ErrClosed)}
	if h.slot != nil {
		h.slot.endAsk(r, e)
		return
	}
	h.endOpen(r, e)
}

// endOpen does what follows from the end of an informer's watch that was open.
func (h *hold) endOpen(r *wire.Response, e requestEnd) {
	f := h.flight
	next := h.informing.follow(e)
	if next.lost && !f.isStopped() {
		h.informing.ended = r.Done
		f.watches.countEnd(e.End)
	}
	h.reportClosed(r, next.over)
	if next.over || !f.queueAsk(h.callAfter(next)) {
		f.endCall()
		return
	}
	f.sendDue()
}

// watchEnd says how a client's watch ended.
func (h *hold) watchEnd(r *wire.Response) informer.End {
	if h.failed != nil {
		return *h.failed
	}
	if h.first.Done == 0 {
		return endOf(r)
	}
	e := informer.End{How: informer.Closed, Events: h.frames.events + h.marks}
	if h.informing != nil {
		e.Lasted = r.Done.Sub(h.informing.began)
	}
	if r.Err != nil && !isClosing(r.Err) {
		// What client-go makes of a stream that it cannot read on.
		e.How, e.Code = informer.Failed, http.StatusInternalServerError
	}
	return e
}

// isStopped tells whether the flight was stopped.
func (f *flight) isStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}
