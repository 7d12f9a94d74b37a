package fleet

import (
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// edge is the state of one hollow edge. step is all that changes it: an event at a time
// goes in, messages and timers come out. It has no clock, no connection and no lock,
// which its driver has. At rest its maps are nil.
type edge struct {
	name      string
	connected bool
	joined    bool
	armed     bool       // a beat is in the schedule
	dials     int32      // since the last connection ended
	asked     uint32     // requests so far
	lost      clock.Time // when the last connection ended; 0: it never had one
	lease     []byte     // as the API server has it, in JSON; nil: the edge has none
	next      [3]clock.Time
	held      objects
	pending   map[string]*request // by msg_id
	pods      map[string]*pod     // by UID: those that start or end
	behind    map[string]*pod     // by UID: those that run and of which the API server had something older
	devices   map[string]*device  // by UID: those that report
}

// event is something that happens to an edge: its connection is open or has ended, a
// message has come, or the time of a timer.
type event interface{ happenTo(s *step) }

// timer is an event that is to happen at a time.
type timer struct {
	due   clock.Time
	event event
}

// effects are what comes of an event.
type effects struct {
	messages []message.Message // to be sent, in this order
	timers   []timer
	facts    []fact
	failure  error // the fleet has to end
}

// fact is something to be counted or measured.
type fact struct {
	what  observation
	label string
	took  time.Duration
}

// observation is what a fact is about: a metric of the fleet.
type observation string

// What is observed of edges.
const (
	applied     observation = "applied"     // label: what the object was to the edge
	answered    observation = "answered"    // label: the type of the request's resource; after how long
	unanswered  observation = "unanswered"  // a request, at last
	refused     observation = "refused"     // label: which request
	reconnected observation = "reconnected" // how long after the loss of the connection
	podStarted  observation = "started"     // how long after the pod had come
	joined      observation = "joined"
	reported    observation = "reported"
	duplicated  observation = "duplicated"
)

// step is one event at one edge.
type step struct {
	e    *edge
	o    *Options
	dice *rand.Rand
	now  clock.Time
	wall time.Time
	out  *effects
}

// addFact adds a fact.
func (s *step) addFact(what observation, label string) {
	s.out.facts = append(s.out.facts, fact{what: what, label: label})
}

// addMeasurement adds a fact of how long something took, since a time.
func (s *step) addMeasurement(what observation, label string, since clock.Time) {
	s.out.facts = append(s.out.facts, fact{what, label, s.now.Sub(since)})
}

// addTimer lets an event happen after a while.
func (s *step) addTimer(d time.Duration, e event) {
	s.out.timers = append(s.out.timers, timer{s.now.Add(d), e})
}

// randomPart returns a random part of a period.
func (s *step) randomPart(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.dice.Int64N(int64(d)))
}

// newMessage returns a message of the edge with an ID of its own.
func (s *step) newMessage(r message.Route, content []byte) message.Message {
	id := message.UUID(s.dice.Uint64(), s.dice.Uint64())
	return message.Message{Header: message.Header{ID: id, Timestamp: s.wall.UnixMilli()}, Route: r, Content: content}
}

// sendMessage sends a message, if there is a connection.
func (s *step) sendMessage(m *message.Message) {
	if !s.e.connected {
		return
	}
	s.out.messages = append(s.out.messages, *m)
	if p := s.o.Duplicate; p > 0 && m.Route.Operation != message.Keepalive && s.dice.Float64() < p {
		s.out.messages = append(s.out.messages, *m)
		s.addFact(duplicated, "")
	}
}

// connected is the event of a connection that is open.
type connected struct{}

func (connected) happenTo(s *step) {
	e := s.e
	if e.lost != 0 {
		s.addMeasurement(reconnected, "", e.lost)
	}
	e.connected, e.dials = true, 0
	s.sendKeepalive()
	// The first of each comes at a random moment of its period, or an hour of them would come at once.
	e.next[doKeepalive] = s.now.Add(s.o.Keepalive)
	e.next[doLease] = s.now.Add(s.randomPart(s.o.Lease))
	e.next[doStatus] = s.now.Add(s.randomPart(s.o.Status))
	for _, q := range e.inOrder(nil) { // what was asked before the connection was lost
		q.sent = s.now
		s.sendMessage(&q.message)
	}
	if s.o.Nodes && !e.joined && e.pending == nil {
		s.insertOwnNode()
	}
	s.armHeartbeat()
}

// disconnected is the event of a connection that has ended.
type disconnected struct{}

func (disconnected) happenTo(s *step) {
	s.e.connected, s.e.lost, s.e.dials = false, s.now, 0
	s.dialAgain()
}

// notConnected is the event of a dial that has failed.
type notConnected struct{}

func (notConnected) happenTo(s *step) { s.dialAgain() }

// dial is the time to dial, which the driver does.
type dial struct{}

func (dial) happenTo(*step) {}

// The times of KubeEdge's reconnects.
const (
	fixedWait  = 30 * time.Second
	fixedGap   = 5 * time.Second
	fixedDials = 5
	maxJitter  = 30 * time.Second
)

// dialAgain lets the edge dial again.
func (s *step) dialAgain() {
	s.e.dials++
	var wait time.Duration
	switch n := s.e.dials; {
	case s.o.Backoff == BackoffJitter:
		wait = s.randomPart(min(time.Second<<min(n, 10), maxJitter))
	case n%fixedDials == 1:
		wait = fixedWait
	default:
		wait = fixedGap
	}
	s.addTimer(wait, dial{})
}

// received is the event of a message that has come.
type received struct {
	message  message.Message
	resource message.Resource
}

// readMessage reads a message. The word says why there is nothing for the edge in it.
func (x *received) readMessage(raw []byte) (word string) {
	var err error
	if x.message, err = message.Decode(raw); err != nil {
		return "malformed"
	}
	switch {
	case x.message.Route.Resource == message.Membership:
		return "membership" // what comes of it is told by the devices themselves
	case x.message.Route.Resource == message.Twin && x.message.Ack():
		return "report acknowledged"
	}
	if x.resource, err = message.ParseResource(x.message.Route.Resource); err != nil {
		return "malformed"
	}
	return ""
}

func (x *received) happenTo(s *step) {
	m := &x.message
	if m.Header.ParentID != "" {
		s.handleAnswer(m, x.resource)
		return
	}
	if s.applyObject(m, x.resource) {
		s.sendAcknowledgement(m)
	}
}

// sendAcknowledgement says that a message was carried out.
func (s *step) sendAcknowledgement(m *message.Message) {
	if s.o.DropAcks > 0 && s.dice.Float64() < s.o.DropAcks {
		return
	}
	ack := s.newMessage(message.Route{Source: m.Route.Source, Group: m.Route.Group, Operation: message.Response, Resource: m.Route.Resource}, []byte(message.OK))
	ack.Header.ParentID = m.Header.ID
	if s.o.DelayAcks > 0 {
		late := ack
		s.addTimer(s.o.DelayAcks, delayedAck{&late})
		return
	}
	s.sendMessage(&ack)
}

// delayedAck is the time to send an acknowledgement.
type delayedAck struct{ ack *message.Message }

func (d delayedAck) happenTo(s *step) { s.sendMessage(d.ack) }
