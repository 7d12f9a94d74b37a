package hub

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// outgoing is one object on its way to an edge: the newest of what is to be said
// of it.
type outgoing struct {
	key      // of the object
	message  message.Message
	version  uint64
	sum      uint64 // where not every change goes down: of what the edge acts on
	deletion bool
	event    clock.Time // when the hub saw it
	tries    int
}

// connection is what a session's messages go over: a websocket, or a stream of QUIC.
type connection interface {
	Send(message []byte) error
	Close() error
}

// session is one edge's connection. At rest its maps are nil.
type session struct {
	hub    *Hub
	node   string
	conn   connection
	last   atomic.Int64 // clock.Time of the last keepalive
	reason atomic.Pointer[string]

	mu      sync.Mutex
	store   map[string]*outgoing // by what queued returns
	queue   []string             // likewise
	acks    map[string]chan struct{}
	lanes   int
	answers [][]byte
	writing bool
	over    chan struct{}
}

// queued is by what an object waits to be sent: two of the same are one.
func (k key) queued(o *Options) string {
	if o.Queues == QueuesV111 {
		return k.kind + "/" + k.namespace + "/" + k.name
	}
	return k.uid
}

// enqueue takes what is to be sent and acknowledged. It drops what is no newer
// than what waits, and all but a forced one behind a deletion.
func (s *session) enqueue(ctx context.Context, m *outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := m.queued(&s.hub.o)
	if old := s.store[id]; old != nil {
		if old.deletion || !m.deletion && m.version <= old.version {
			s.hub.metrics.dropped.WithLabelValues("older").Inc()
			return
		}
		s.store[id] = m
		return // it is queued, or is queued again by its lane
	}
	if s.store == nil {
		s.store, s.acks = map[string]*outgoing{}, map[string]chan struct{}{}
	}
	s.store[id] = m
	s.queueLocked(ctx, id)
}

func (s *session) queueLocked(ctx context.Context, id string) {
	s.queue = append(s.queue, id)
	if s.lanes < s.hub.o.Window {
		s.lanes++
		s.hub.wait.Go(func() { s.lane(ctx) })
	}
}

// lane sends one message after the other, each until it is acknowledged, and ends
// when there is none. There are as many as the window.
func (s *session) lane(ctx context.Context) {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.ended() {
			s.lanes--
			if s.lanes == 0 && len(s.store) == 0 {
				s.store, s.acks, s.queue = nil, nil, nil
			}
			s.mu.Unlock()
			return
		}
		id := s.queue[0]
		s.queue = s.queue[1:]
		m := s.store[id]
		ack := make(chan struct{}, 1)
		s.acks[m.message.Header.ID] = ack
		s.mu.Unlock()

		acked := s.deliver(ctx, m, ack)
		if acked {
			s.hub.acknowledged(ctx, s, m)
		}
		s.mu.Lock()
		delete(s.acks, m.message.Header.ID)
		switch {
		case s.store[id] != m:
			s.queueLocked(ctx, id) // a newer one came meanwhile
		case acked:
			delete(s.store, id)
		default:
			s.later(ctx, m)
		}
		s.mu.Unlock()
	}
}

// deliver sends a message, again and again, until it is acknowledged; false: not
// within all tries.
func (s *session) deliver(ctx context.Context, m *outgoing, ack chan struct{}) bool {
	raw := m.message.Append(nil)
	resource := m.kind
	began := s.hub.o.Clock.Now()
	timer := time.NewTimer(s.hub.o.ResendAfter)
	defer timer.Stop()
	for try := range s.hub.o.Resends {
		if try > 0 || m.tries > 0 {
			s.hub.metrics.resends.Inc()
		}
		s.hub.metrics.messages.WithLabelValues("down", m.message.Route.Operation, resource).Inc()
		if s.conn.Send(raw) != nil {
			return false
		}
		timer.Reset(s.hub.o.ResendAfter)
		select {
		case <-ack:
			now := s.hub.o.Clock.Now()
			s.hub.metrics.ack.WithLabelValues(resource).Observe(now.Sub(began).Seconds())
			s.hub.metrics.delivery.WithLabelValues(resource).Observe(now.Sub(m.event).Seconds())
			return true
		case <-s.over:
			return false
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
	}
	s.mu.Lock()
	m.tries++ // left copies messages
	s.mu.Unlock()
	return false
}

// The delays of what was not acknowledged within all tries.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 1000 * time.Second
)

// later puts a message back after a while that doubles. It expects the lock.
func (s *session) later(ctx context.Context, m *outgoing) {
	if s.ended() {
		return
	}
	delay := min(firstDelay<<min(max(m.tries-1, 0), 30), lastDelay)
	s.hub.wait.Go(func() {
		select {
		case <-time.After(delay):
		case <-s.over:
			return
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queueLocked(ctx, m.queued(&s.hub.o))
	})
}

func (s *session) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// left is what waits, of a session that has ended.
func (s *session) left() (out []*outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.store {
		waits := *m
		waits.tries = 0
		out = append(out, &waits)
	}
	return out
}

// known returns the version of an object that waits to be sent.
func (s *session) known(k key) (version uint64, deletion, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.store[k.queued(&s.hub.o)]
	if m == nil {
		return 0, false, false
	}
	return m.version, m.deletion, true
}

// acknowledge is told of an acknowledgement.
func (s *session) acknowledge(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ack := s.acks[id]; ack != nil {
		select {
		case ack <- struct{}{}:
		default:
		}
		return
	}
	s.hub.metrics.dropped.WithLabelValues("acknowledges nothing").Inc()
}

// answer sends what is not acknowledged, in order and without waiting for it.
func (s *session) answer(m *message.Message) {
	raw := m.Append(nil)
	s.hub.metrics.messages.WithLabelValues("down", m.Route.Operation, typeOf(m.Route.Resource)).Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, raw)
	if s.writing || s.ended() {
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
		if len(todo) == 0 || s.ended() {
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

func (s *session) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.store) + len(s.answers)
}

// end closes the session and says why.
func (s *session) end(reason string) {
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
	s.hub.received(s, m)
	return nil
}

// Ended takes the session out of the hub, unless the edge has a newer one.
func (s *session) Ended(err error) { s.hub.ended(s, err) }
