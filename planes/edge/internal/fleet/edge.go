package fleet

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// connection is what an edge's messages go over: a websocket, or a stream of QUIC.
type connection interface {
	Send(message []byte) error
	Close() error
}

// edge is one hollow edge. At rest its maps are nil.
type edge struct {
	fleet       *Fleet
	name        string
	certificate *tls.Certificate       // of the dialer that has the edge
	tickets     tls.ClientSessionCache // likewise; nil: it makes whole handshakes
	tick        func()                 // in the schedule once

	mu      sync.Mutex
	conn    connection
	lost    clock.Time // when the last connection ended; 0: it never had one
	dials   int        // since then
	joined  bool
	armed   bool   // it is in the schedule
	slow    bool   // it reads nothing for a while
	lease   string // its version; empty: it has none
	next    [3]clock.Time
	held    []held
	pending map[string]*request // by msg_id
	pods    map[string]*pod     // by UID: those that start or end
	behind  map[string]*pod     // by UID: those that run and of which the API server had something older
	things  map[string]*thing   // by UID: those that report
}

// What an edge does again and again.
const (
	doKeepalive = iota
	doLease
	doStatus
)

// request is what an edge asked and was not answered yet.
type request struct {
	message message.Message
	sent    clock.Time
	tries   int
	done    func(m *message.Message) // with nil: nobody answered
}

// How long an edge waits for an answer, and how often it asks, while connected.
const (
	answerWithin = 60 * time.Second
	maxTries     = 3
)

// Message takes what the hub sends. The edge's lock is held while it is applied.
func (e *edge) Message(raw []byte) error {
	m, err := message.Decode(raw)
	if err != nil {
		e.fleet.metrics.applied.WithLabelValues("malformed").Inc()
		return nil
	}
	if m.Route.Resource == message.Membership {
		e.fleet.metrics.applied.WithLabelValues("membership").Inc()
		return nil // what comes of it is told by the devices themselves
	}
	r, err := message.ParseResource(m.Route.Resource)
	if err != nil {
		e.fleet.metrics.applied.WithLabelValues("malformed").Inc()
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slowLocked()
	if m.Header.ParentID != "" {
		e.answeredLocked(&m, r)
		return nil
	}
	if e.applyLocked(&m, r) {
		e.acknowledgeLocked(&m)
	}
	return nil
}

// slowLocked reads nothing more for a while, where edges are to be slow.
func (e *edge) slowLocked() {
	f := e.fleet
	c, ok := e.conn.(*link.Conn)
	if f.o.ReadEvery == 0 || !ok || e.slow {
		return
	}
	e.slow = true
	f.poller.Pause(c)
	f.schedule.in(f.o.ReadEvery, func() {
		e.mu.Lock()
		e.slow = false
		e.mu.Unlock()
		f.poller.Resume(c)
	})
}

// answeredLocked ends a request, and acknowledges answers that the hub counts on.
func (e *edge) answeredLocked(m *message.Message, r message.Resource) {
	q := e.pending[m.Header.ParentID]
	if r.Acked() && m.Route.Operation == message.Response {
		if e.applyLocked(m, r) {
			e.acknowledgeLocked(m)
		}
	}
	if q == nil {
		e.fleet.metrics.applied.WithLabelValues("answer to nothing").Inc()
		return
	}
	delete(e.pending, m.Header.ParentID)
	if len(e.pending) == 0 {
		e.pending = nil
	}
	e.fleet.metrics.request.WithLabelValues(r.Type).Observe(e.fleet.now().Sub(q.sent).Seconds())
	q.done(m)
}

// acknowledgeLocked says that a message was carried out.
func (e *edge) acknowledgeLocked(m *message.Message) {
	o := &e.fleet.o
	if o.DropAcks > 0 && rand.Float64() < o.DropAcks {
		return
	}
	ack := message.New(e.fleet.wall(), message.Route{Source: m.Route.Source, Group: m.Route.Group, Operation: message.Response, Resource: m.Route.Resource}, []byte(message.OK))
	ack.Header.ParentID = m.Header.ID
	if o.DelayAcks > 0 {
		e.fleet.schedule.in(o.DelayAcks, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.sendLocked(&ack)
		})
		return
	}
	e.sendLocked(&ack)
}

// keptBuffer is the largest buffer of a message that is kept, in bytes.
const keptBuffer = 16 << 10

// sendLocked sends a message, if there is a connection.
func (e *edge) sendLocked(m *message.Message) {
	if e.conn == nil {
		return
	}
	b, ok := e.fleet.written.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	*b = m.Append((*b)[:0])
	_ = e.conn.Send(*b) // the connection's reader tells of its end
	if p := e.fleet.o.Duplicate; p > 0 && m.Route.Operation != message.Keepalive && rand.Float64() < p {
		_ = e.conn.Send(*b)
		e.fleet.metrics.duplicates.Inc()
	}
	if cap(*b) <= keptBuffer {
		e.fleet.written.Put(b)
	}
}

// askLocked sends a request and calls done, under the lock, with its answer.
func (e *edge) askLocked(operation string, r message.Resource, content any, done func(*message.Message)) {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // the types here can always be written
	}
	m := message.New(e.fleet.wall(), message.Route{Source: message.SourceEdge, Group: message.GroupMeta, Operation: operation, Resource: r.String()}, raw)
	m.Header.Sync = true
	q := &request{message: m, sent: e.fleet.now(), tries: 1, done: done}
	if e.pending == nil {
		e.pending = map[string]*request{}
	}
	e.pending[m.Header.ID] = q
	e.sendLocked(&m)
}

// overdueLocked asks again what was not answered, and gives up at last.
func (e *edge) overdueLocked(now clock.Time) {
	for id, q := range e.pending {
		switch {
		case now.Sub(q.sent) < answerWithin:
		case q.tries < maxTries:
			q.tries, q.sent = q.tries+1, now
			e.sendLocked(&q.message)
		default:
			delete(e.pending, id)
			e.fleet.metrics.unanswered.Inc()
			q.done(nil)
		}
	}
}

// opened makes a new connection the edge's.
func (e *edge) opened(c connection) {
	f := e.fleet
	e.mu.Lock()
	defer e.mu.Unlock()
	now := f.now()
	if e.lost != 0 {
		f.metrics.back.WithLabelValues().Observe(now.Sub(e.lost).Seconds())
	}
	e.conn, e.dials = c, 0
	f.isConnected()
	e.keepaliveLocked()
	// The first of each comes at a random moment of its period, or an hour of them would come at once.
	e.next[doKeepalive] = now.Add(f.o.Keepalive)
	e.next[doLease] = now.Add(spread(f.o.Lease))
	e.next[doStatus] = now.Add(spread(f.o.Status))
	for _, q := range e.pending { // what was asked before the connection was lost
		q.sent = now
		e.sendLocked(&q.message)
	}
	if f.o.Nodes && !e.joined && e.pending == nil {
		e.joinLocked()
	}
	e.rearmLocked()
}

func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// rearmLocked puts the edge into the schedule for what is next.
func (e *edge) rearmLocked() {
	if e.armed {
		return // from a connection before, and soon enough
	}
	e.armed = true
	first := e.next[doKeepalive]
	if e.fleet.o.Lease > 0 {
		first = min(first, e.next[doLease])
	}
	if e.fleet.o.Status > 0 {
		first = min(first, e.next[doStatus])
	}
	e.fleet.schedule.at(e.fleet.onGrid(first), e.tick)
}

// onGrid returns the first time of the fleet's grid that is not before t: an edge that beats
// does so with all that are due within one step of it. Otherwise each keepalive comes alone, with
// a wakeup of the fleet and one of the hub, which cost more than the keepalive
// (experiments/0020).
func (f *Fleet) onGrid(t clock.Time) clock.Time {
	step := clock.Time(min(f.o.Grid, f.o.Keepalive/8)) // a keepalive is never late by a part of its period that matters
	if step <= 0 {
		return t
	}
	return (t + step - 1) / step * step
}

// beat does what is due.
func (e *edge) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = false
	if e.conn == nil {
		return // the next connection arms it
	}
	now, o := e.fleet.now(), &e.fleet.o
	if e.next[doKeepalive] <= now {
		e.keepaliveLocked()
		e.next[doKeepalive] = e.next[doKeepalive].Add(o.Keepalive)
	}
	if o.Lease > 0 && e.next[doLease] <= now {
		if e.lease != "" {
			e.renewLocked()
		}
		e.next[doLease] = now.Add(o.Lease + rand.N(o.Lease/25+1))
	}
	if o.Status > 0 && e.next[doStatus] <= now {
		if e.joined {
			e.statusLocked()
		}
		e.next[doStatus] = now.Add(o.Status)
	}
	e.overdueLocked(now)
	e.rearmLocked()
}

// ping is the content of a keepalive.
const ping = `"ping"`

func (e *edge) keepaliveLocked() {
	m := message.New(e.fleet.wall(), message.Route{Source: message.SourceWS, Group: message.GroupCloud, Operation: message.Keepalive, Resource: "node"}, []byte(ping))
	e.sendLocked(&m)
}

// Ended is told that the connection has ended; the edge dials again after a while.
func (e *edge) Ended(err error) {
	f := e.fleet
	e.mu.Lock()
	c := e.conn
	e.conn, e.lost = nil, f.now()
	e.mu.Unlock()
	if c == nil {
		return
	}
	f.connected.Add(-1)
	if f.ending() {
		return
	}
	reason := "closed"
	if err != nil && !errors.Is(err, io.EOF) {
		reason = "lost"
	}
	f.metrics.ended.WithLabelValues(reason).Inc()
	f.redial(e, true)
}
