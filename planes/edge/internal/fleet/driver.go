package fleet

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/windtunnel/windtunnel/internal/sim/wheel"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// connection is what an edge's messages go over: a websocket, or a stream of QUIC.
type connection interface {
	Send(message []byte) error
	Close() error
}

// driver does what one edge decides: it has the edge's connection and its lock, hands it
// events, sends its messages and sets its timers.
type driver struct {
	fleet       *Fleet
	certificate *tls.Certificate       // of the dialer that has the edge
	tickets     tls.ClientSessionCache // likewise; nil: it makes whole handshakes
	beat        wheel.Timer            // of happen(beat{}): at rest it is all that is in the schedule

	mu     sync.Mutex
	conn   connection
	up     path
	down   path
	paused bool // it reads nothing for a while
	edge   edge
}

// dice is the randomness of a fleet. Its functions may be called at the same time.
type dice struct{}

func (dice) Uint64() uint64 { return rand.Uint64() }

// work is what one step needs: taken for its time, so that a keepalive makes no garbage.
type work struct {
	step   step
	out    effects
	buffer []byte
}

// The largest parts of work that are kept.
const (
	keptBuffer  = 16 << 10 // bytes
	keptEffects = 64
)

// handleEvent lets something happen to the edge.
func (d *driver) handleEvent(e event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.happenLocked(e)
}

func (d *driver) happenLocked(e event) {
	f := d.fleet
	w, ok := f.work.Get().(*work)
	if !ok {
		w = &work{}
	}
	now := f.clockNow()
	w.step = step{e: &d.edge, o: &f.o, dice: f.dice, now: now, wall: f.o.Clock.Wall(now), out: &w.out}
	e.happenTo(&w.step)
	for i := range w.out.messages {
		d.sendLocked(w, &w.out.messages[i])
	}
	for _, t := range w.out.timers {
		d.setTimer(t)
	}
	for _, x := range w.out.facts {
		f.observeFact(x)
	}
	if w.out.failure != nil {
		f.fail(w.out.failure)
	}
	if cap(w.buffer) <= keptBuffer && cap(w.out.messages) <= keptEffects {
		w.resetWork()
		f.work.Put(w)
	}
}

func (w *work) resetWork() {
	clear(w.out.messages)
	clear(w.out.timers)
	w.step, w.out = step{}, effects{messages: w.out.messages[:0], timers: w.out.timers[:0], facts: w.out.facts[:0]}
}

func (d *driver) sendLocked(w *work, m *message.Message) {
	if d.conn == nil {
		return
	}
	if d.fleet.o.isImpaired() {
		d.sendLate(m)
		return
	}
	w.buffer = m.Append(w.buffer[:0])
	_ = d.conn.Send(w.buffer) // the connection's reader tells of its end
}

// setTimer lets a timer of the edge happen at its time.
func (d *driver) setTimer(t timer) {
	at := &d.beat
	switch t.event.(type) {
	case beat:
	case dial:
		at = &wheel.Timer{Fire: func() { d.fleet.dialNow(d) }}
	default:
		at = &wheel.Timer{Fire: func() { d.handleEvent(t.event) }}
	}
	d.fleet.schedule.fireAt(t.due, at)
}

// observeFact counts or measures a fact.
func (f *Fleet) observeFact(x fact) {
	m := f.metrics
	switch x.what {
	case applied:
		m.applied.WithLabelValues(x.label).Inc()
	case answered:
		m.request.WithLabelValues(x.label).Observe(x.took.Seconds())
	case unanswered:
		m.unanswered.Inc()
	case refused:
		m.refused.WithLabelValues(x.label).Inc()
	case reconnected:
		m.back.WithLabelValues().Observe(x.took.Seconds())
	case podStarted:
		m.started.WithLabelValues().Observe(x.took.Seconds())
	case joined:
		f.joined.Add(1)
	case reported:
		m.reports.Inc()
	case duplicated:
		m.duplicates.Inc()
	}
}

// Message takes what the hub sends. The edge's lock is held while it is applied.
func (d *driver) Message(raw []byte) error {
	x := &received{}
	if word := x.readMessage(raw); word != "" {
		d.fleet.metrics.applied.WithLabelValues(word).Inc()
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pauseLocked()
	d.happenLocked(x)
	return nil
}

// pauseLocked reads nothing more for a while, where edges are to be slow.
func (d *driver) pauseLocked() {
	f := d.fleet
	c, ok := d.conn.(*link.Conn)
	if f.o.ReadEvery == 0 || !ok || d.paused {
		return
	}
	d.paused = true
	f.poller.Pause(c)
	f.schedule.callAfter(f.o.ReadEvery, func() {
		d.mu.Lock()
		d.paused = false
		d.mu.Unlock()
		f.poller.Resume(c)
	})
}

// setConnection makes a new connection the edge's.
func (d *driver) setConnection(c connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = c
	d.fleet.isConnected()
	d.happenLocked(connected{})
}

// Ended is told that the connection has ended; the edge dials again after a while.
func (d *driver) Ended(err error) {
	f := d.fleet
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		return
	}
	d.conn = nil
	f.connected.Add(-1)
	if f.isEnding() {
		return
	}
	reason := "closed"
	if err != nil && !errors.Is(err, io.EOF) {
		reason = "lost"
	}
	f.metrics.ended.WithLabelValues(reason).Inc()
	d.happenLocked(disconnected{})
}

// heldObjects returns what the edge has.
func (d *driver) heldObjects() []held {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]held(nil), d.edge.held...)
}

// countReports returns how often a device has reported, 0 where it has not.
func (d *driver) countReports(uid string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if own := d.edge.devices[uid]; own != nil {
		return own.reports
	}
	return 0
}
