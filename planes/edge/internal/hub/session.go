package hub

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// connection is what a session's messages go over: a websocket, or a stream of QUIC.
type connection interface {
	Send(message []byte) error
	Close() error
}

// session is one edge's connection. It does what its outbox decides. While the edge has
// nothing to acknowledge, it has no outbox and no timer.
type session struct {
	hub    *Hub
	node   string
	mute   bool // it is one too many: what it asks is done, and nothing goes down
	conn   connection
	last   atomic.Int64 // clock.Time of the last keepalive
	reason atomic.Pointer[string]

	mu      sync.Mutex
	box     *outbox
	timer   *time.Timer
	armed   clock.Time // when the timer fires; 0: it does not
	answers [][]byte
	writing bool
	over    chan struct{}
}

// enqueue takes what the edge has to acknowledge.
func (s *session) enqueue(m *outgoing) {
	if s.mute {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		s.box = newOutbox(&s.hub.o)
	}
	if !s.box.enqueue(m) {
		s.hub.metrics.dropped.WithLabelValues("older").Inc()
	}
	s.actLocked()
}

// onAcknowledgement takes an acknowledgement of the edge. An edge also acknowledges answers
// that the hub does not wait for: nothing follows from those.
func (s *session) onAcknowledgement(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil && s.box.onAcknowledged(id) {
		s.actLocked()
	}
}

// expireDue lets the outbox look for what is due.
func (s *session) expireDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = 0
	if s.box != nil {
		s.box.expireDue(s.hub.o.Clock.Now())
		s.actLocked()
	}
}

// actLocked starts what the outbox wants done. A goroutine is started before the session
// is over only, so that who waits for the hub's goroutines waits for this one, too.
func (s *session) actLocked() {
	if s.hasEnded() {
		return
	}
	for {
		a, ok := s.box.nextAction(s.hub.o.Clock.Now())
		if !ok {
			break
		}
		s.hub.wait.Go(func() { s.doActions(a) })
	}
	s.restLocked()
}

// restLocked sets the timer for what is due next, or lets go of an outbox that is empty.
func (s *session) restLocked() {
	if len(s.box.store) == 0 {
		if s.box = nil; s.timer != nil {
			s.timer.Stop()
			s.timer, s.armed = nil, 0
		}
		return
	}
	due := s.box.wakeAt
	if due == 0 || s.armed != 0 && s.armed <= due {
		return
	}
	s.armed = due
	if s.timer == nil {
		s.timer = time.AfterFunc(s.hub.o.Clock.Until(due), s.expireDue)
	} else {
		s.timer.Reset(s.hub.o.Clock.Until(due))
	}
}

// doActions does one thing after the other until the outbox has nothing more.
func (s *session) doActions(a action) {
	for ok := true; ok; {
		switch a.verb {
		case send:
			a, ok = s.sendMessage(a)
		case record:
			a, ok = s.recordAcknowledged(a)
		}
	}
}

// sendMessage sends a message and returns what is to be done next.
func (s *session) sendMessage(a action) (next action, ok bool) {
	m := a.m
	if a.try > 1 || m.tries > 0 {
		s.hub.metrics.resends.Inc()
	}
	s.hub.metrics.messages.WithLabelValues("down", m.message.Route.Operation, m.kind).Inc()
	err := s.conn.Send(m.message.Append(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.hub.o.Clock.Now(); err != nil {
		s.box.onFailed(m, now)
	} else {
		s.box.onSent(m, now)
	}
	return s.nextLocked()
}

// recordAcknowledged writes down what an edge has acknowledged and returns what is to be done next.
func (s *session) recordAcknowledged(a action) (next action, ok bool) {
	m, now := a.m, s.hub.o.Clock.Now()
	s.hub.metrics.ack.WithLabelValues(m.kind).Observe(now.Sub(m.began).Seconds())
	s.hub.metrics.delivery.WithLabelValues(m.kind).Observe(now.Sub(m.event).Seconds())
	s.hub.recordAcknowledged(s.hub.ctx(), s, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box.onRecorded(m)
	return s.nextLocked()
}

// nextLocked returns what whoever has done something does next.
func (s *session) nextLocked() (a action, ok bool) {
	if s.hasEnded() {
		return a, false
	}
	if a, ok = s.box.nextAction(s.hub.o.Clock.Now()); ok {
		return a, true
	}
	s.restLocked()
	return a, false
}

// finishSession makes the session over: nothing more is started for it.
func (s *session) finishSession() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.over)
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *session) hasEnded() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// takeUnrecorded returns what waits, of a session that has ended.
func (s *session) takeUnrecorded() []*outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		return nil
	}
	return s.box.takeUnrecorded()
}

// newestOf returns the newest state of an object that waits to be sent or acknowledged;
// nil: there is none.
func (s *session) newestOf(k key) *outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		return nil
	}
	return s.box.newestOf(k)
}

// sendAnswer sends what is not acknowledged, in order and without waiting for it.
func (s *session) sendAnswer(m *message.Message) {
	if s.mute {
		return
	}
	raw := m.Append(nil)
	s.hub.metrics.messages.WithLabelValues("down", m.Route.Operation, typeOf(m.Route.Resource)).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, raw)
	if s.writing || s.hasEnded() {
		return
	}
	s.writing = true
	s.hub.wait.Go(s.writeAnswers)
}

func (s *session) writeAnswers() {
	for {
		s.mu.Lock()
		todo := s.answers
		s.answers = nil
		if len(todo) == 0 || s.hasEnded() {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, raw := range todo {
			if s.conn.Send(raw) != nil {
				break // the connection is closed; its reader says so
			}
		}
	}
}

func (s *session) queueDepth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.answers)
	if s.box != nil {
		n += len(s.box.store)
	}
	return n
}

// closeWithReason closes the session and says why.
func (s *session) closeWithReason(reason string) {
	s.reason.CompareAndSwap(nil, &reason)
	_ = s.conn.Close() // it never fails
}

// Message takes what the edge sends.
func (s *session) Message(raw []byte) error {
	m, err := message.Decode(raw)
	if err != nil {
		s.hub.metrics.dropped.WithLabelValues("malformed").Inc()
		return nil // as KubeEdge does: it is logged and the next one is read
	}
	s.hub.onMessage(s, m)
	return nil
}

// Ended takes the session out of the hub, unless the edge has a newer one.
func (s *session) Ended(err error) { s.hub.endSession(s, err) }
