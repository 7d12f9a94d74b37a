package hub

import (
	"cmp"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// outgoing is one state of an object on its way to an edge.
type outgoing struct {
	key      // of the object
	message  message.Message
	version  uint64
	sum      uint64 // if not every change goes down: digest of what the edge acts on
	deletion bool
	answer   bool       // to a request of the edge
	event    clock.Time // when the hub saw the change
	began    clock.Time // when it was first sent, since it last left the queue
	tries    int        // how often all sends went by without an acknowledgement
}

// queueID returns the identity under which an object waits: of two states with the same
// identity the newer replaces the older.
func (k key) queueID(o *Options) string {
	if o.Queues == QueuesV111 {
		return k.kind + "/" + k.namespace + "/" + k.name
	}
	return k.uid
}

// outbox decides what a hub sends to one edge that the edge has to acknowledge. It has no
// clock, no connection and no lock: the session calls it for each event, with the time
// where that matters, and then does what next returns until there is nothing to do.
//
// Each object has one delivery. It waits in the queue, has a place in the window (from
// the first send until its acknowledgement is recorded, or until all sends went by
// without one), or backs off. In KubeEdge's words store is the nodeStore and queue the
// nodeMessageQueue.
type outbox struct {
	o      *Options
	store  map[string]*delivery // by what queued returns
	queue  []string             // likewise
	window []*delivery          // those that have a place in it, at most as many as the option
	wakeAt clock.Time           // no delivery is due before; 0: none is
	first  [1]*delivery         // room for the window of an edge that gets one object
}

// delivery is the way of one object to the edge.
type delivery struct {
	newest  *outgoing  // the state that has to arrive in the end
	sent    *outgoing  // the state that has a place in the window; nil: none has
	sends   int        // of sent
	todo    verb       // what is to be done about sent, which next returns; empty: nothing
	sending bool       // the session has it in hand
	acked   bool       // sent is acknowledged, which is not recorded yet
	due     clock.Time // of the next send, or of the end of its back-off; 0: neither
}

// action is what a session is to do about a message.
type action struct {
	verb verb
	m    *outgoing
	try  int // of a send: the number of this one since the message left the queue, from 1
}

// verb is a kind of action.
type verb string

// What a session does.
const (
	send   verb = "send"   // hand the message to the connection, then call sent or failed
	record verb = "record" // write down that the edge has it, then call recorded
)

func newOutbox(o *Options) *outbox {
	b := &outbox{o: o, store: map[string]*delivery{}}
	b.window = b.first[:0]
	return b
}

// enqueue takes a state of an object. It returns false if it drops it: the state is no
// newer than the one that waits, or a deletion waits. An answer is never dropped. What waits is
// replaced, also an answer, whose asker then hears nothing.
func (b *outbox) enqueue(m *outgoing) bool {
	id := m.queueID(b.o)
	d := b.store[id]
	if d == nil {
		b.store[id] = &delivery{newest: m}
		b.queue = append(b.queue, id)
		return true
	}
	if !m.answer && (d.newest.deletion || !m.deletion && m.version <= d.newest.version) {
		return false
	}
	d.newest = m // sent when what has the object's place now has left it
	return true
}

// nextAction returns the next action, if there is one.
func (b *outbox) nextAction(now clock.Time) (a action, ok bool) {
	for _, d := range b.window {
		if d.todo != "" {
			return d.takeAction(), true
		}
	}
	if len(b.queue) == 0 || len(b.window) >= b.o.Window {
		return action{}, false
	}
	d := b.store[b.queue[0]]
	b.queue = b.queue[1:]
	d.sent, d.sends, d.acked, d.todo = d.newest, 0, false, send
	d.sent.began = now
	b.window = append(b.window, d)
	return d.takeAction(), true
}

// takeAction returns what is to be done about a message that has a place in the window.
func (d *delivery) takeAction() action {
	a := action{verb: d.todo, m: d.sent}
	if d.todo = ""; a.verb == send {
		d.sends++
		d.sending, a.try = true, d.sends
	}
	return a
}

// findDelivery returns the delivery of a message that has a place in the window; nil: the message
// has none.
func (b *outbox) findDelivery(id string) *delivery {
	for _, d := range b.window {
		if d.sent.message.Header.ID == id {
			return d
		}
	}
	return nil
}

// onSent says that the connection has taken a message: the time for its acknowledgement
// begins.
func (b *outbox) onSent(m *outgoing, now clock.Time) {
	d := b.findDelivery(m.message.Header.ID)
	if d.sending = false; d.acked {
		d.todo = record
		return
	}
	b.wakeAfter(d, now.Add(b.o.ResendAfter))
}

// onFailed says that the connection has not taken a message.
func (b *outbox) onFailed(m *outgoing, now clock.Time) {
	d := b.findDelivery(m.message.Header.ID)
	if d.sending = false; d.acked {
		d.todo = record
		return
	}
	b.backOff(d, now)
}

// onAcknowledged takes the edge's acknowledgement of a message. It returns false if no
// message waits for it.
func (b *outbox) onAcknowledged(id string) bool {
	d := b.findDelivery(id)
	if d == nil {
		return false
	}
	if d.acked {
		return true // it was sent twice
	}
	d.acked, d.due = true, 0
	if !d.sending { // or an old state could be sent behind a newer one
		d.todo = record
	}
	return true
}

// onRecorded says that an acknowledgement is written down: the message's place in the
// window is free.
func (b *outbox) onRecorded(m *outgoing) {
	d := b.findDelivery(m.message.Header.ID)
	b.leaveWindow(d)
	id := m.queueID(b.o)
	if d.newest == m {
		delete(b.store, id)
	} else {
		b.queue = append(b.queue, id)
	}
}

// expireDue sends again what was not acknowledged in time, lets what was sent often enough
// back off, and queues what has done so.
func (b *outbox) expireDue(now clock.Time) {
	var due []*delivery
	b.wakeAt = 0
	for _, d := range b.store {
		switch {
		case d.due == 0:
		case d.due <= now:
			due = append(due, d)
		default:
			b.wakeAfter(d, d.due)
		}
	}
	slices.SortFunc(due, func(x, y *delivery) int {
		return cmp.Or(cmp.Compare(x.due, y.due), cmp.Compare(x.newest.queueID(b.o), y.newest.queueID(b.o)))
	})
	for _, d := range due {
		b.handleOverdue(d, now)
	}
}

func (b *outbox) handleOverdue(d *delivery, now clock.Time) {
	d.due = 0
	switch {
	case d.sent == nil:
		b.queue = append(b.queue, d.newest.queueID(b.o))
	case d.sends < b.o.Resends:
		d.todo = send
	default:
		d.sent.tries++
		b.backOff(d, now)
	}
}

// The delays of a message of which all sends went by without an acknowledgement.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 1000 * time.Second
)

// backOff takes a message out of the window for a time that doubles with each of its
// tries. If a newer state waits, that one is queued at once.
func (b *outbox) backOff(d *delivery, now clock.Time) {
	m := d.sent
	b.leaveWindow(d)
	if d.newest != m {
		b.queue = append(b.queue, m.queueID(b.o))
		return
	}
	b.wakeAfter(d, now.Add(min(firstDelay<<min(max(m.tries-1, 0), 30), lastDelay)))
}

// leaveWindow frees a delivery's place in the window.
func (b *outbox) leaveWindow(d *delivery) {
	i := slices.Index(b.window, d)
	b.window = slices.Delete(b.window, i, i+1)
	d.sent, d.due = nil, 0
}

// wakeAfter makes a delivery due at a time.
func (b *outbox) wakeAfter(d *delivery, due clock.Time) {
	d.due = due
	if b.wakeAt == 0 || due < b.wakeAt {
		b.wakeAt = due
	}
}

// newestOf returns the newest state of an object that waits or is on its way; nil: none.
func (b *outbox) newestOf(k key) *outgoing {
	if d := b.store[k.queueID(b.o)]; d != nil {
		return d.newest
	}
	return nil
}

// takeUnrecorded returns the newest state of each object that is not recorded, to be sent over
// another connection.
func (b *outbox) takeUnrecorded() (out []*outgoing) {
	for _, d := range b.store {
		m := *d.newest
		m.tries = 0
		out = append(out, &m)
	}
	return out
}
