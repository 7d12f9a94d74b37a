package hub

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// boxRig is an outbox with a hand that does at once what it says.
type boxRig struct {
	o    Options
	box  *outbox
	now  clock.Time
	said map[string]*outgoing // what was sent, by OBJECT@VERSION
	out  strings.Builder

	refuses bool // the connection takes nothing
}

func state(node, name string, version uint64, deletion bool) *outgoing {
	return &outgoing{
		key: key{node: node, kind: "pod", namespace: "default", name: name, uid: name}, version: version, deletion: deletion,
		message: message.Message{Header: message.Header{ID: message.NewID()}},
	}
}

func (r *boxRig) name(m *outgoing) string { return m.name + "@" + strconv.FormatUint(m.version, 10) }

func (r *boxRig) act() {
	for a, ok := r.box.nextAction(r.now); ok; a, ok = r.box.nextAction(r.now) {
		name, again := r.name(a.m), ""
		if a.m.deletion {
			name += " (deletion)"
		}
		if a.try > 1 || a.m.tries > 0 {
			again = fmt.Sprintf(", send %d of %d", a.try, r.o.Resends)
		}
		fmt.Fprintf(&r.out, "%s %s%s\n", a.verb, name, again)
		if a.verb == send {
			r.said[r.name(a.m)] = a.m
			if r.refuses {
				r.box.onFailed(a.m, r.now)
			} else {
				r.box.onSent(a.m, r.now)
			}
		}
	}
}

// pass lets time pass, and wakes the outbox whenever it asks for that.
func (r *boxRig) pass(d time.Duration) {
	until := r.now.Add(d)
	for r.box.wakeAt != 0 && r.box.wakeAt <= until {
		r.now = r.box.wakeAt
		before := r.out.Len()
		r.box.expireDue(r.now)
		if r.act(); r.out.Len() > before {
			said := r.out.String()
			r.out.Reset()
			fmt.Fprintf(&r.out, "%sat %v: %s", said[:before], time.Duration(r.now), said[before:])
		}
	}
	r.now = until
}

func (r *boxRig) do(t *testing.T, s repotest.Step) string {
	r.out.Reset()
	switch s.Name {
	case "outbox":
		r.begin(t, s.Args)
	case "enqueue":
		name, version, _ := strings.Cut(s.Words[0], "@")
		n := repotest.Must(strconv.ParseUint(version, 10, 64))(t)
		m := state("edge-0", name, n, slices.Contains(s.Words, "deletion"))
		m.answer = slices.Contains(s.Words, "answer")
		if !r.box.enqueue(m) {
			r.out.WriteString("dropped\n")
		}
	case "ack":
		if m := r.said[s.Words[0]]; m == nil || !r.box.onAcknowledged(m.message.Header.ID) {
			r.out.WriteString("acknowledges nothing\n")
		}
	case "recorded":
		m := r.said[s.Words[0]]
		if m == nil || r.box.findDelivery(m.message.Header.ID) == nil {
			t.Fatalf("%s: it is not on its way", s.Line)
		}
		r.box.onRecorded(m)
	case "refuse":
		r.refuses = s.Words[0] == "on"
	case "pass":
		d := repotest.Must(time.ParseDuration(s.Words[0]))(t)
		r.pass(d)
	case "left":
		var names []string
		for _, m := range r.box.takeUnrecorded() {
			names = append(names, r.name(m))
		}
		slices.Sort(names)
		return strings.Join(names, "\n")
	}
	r.act()
	return r.out.String()
}

func (r *boxRig) begin(t *testing.T, args map[string]string) {
	window := repotest.Must(strconv.Atoi(args["window"]))(t)
	*r = boxRig{o: Options{Window: window, Resends: 3, ResendAfter: 5 * time.Second, Queues: args["queues"]}, said: map[string]*outgoing{}}
	r.box = newOutbox(&r.o)
}

// TestOutbox plays what an outbox decides: testdata/outbox.trace.
func TestOutbox(t *testing.T) {
	r := &boxRig{}
	repotest.Trace(t, "testdata/outbox.trace", r.do)
}

// world draws what happens between a hub and one edge, and holds at each step what an
// outbox promises.
type world struct {
	t      *testing.T
	dice   *rand.Rand
	o      Options
	box    *outbox
	now    clock.Time
	wanted map[string]*outgoing // the newest state of each object
	edge   map[string]*outgoing // what the edge has
	synced map[string]uint64    // versions that are written down as the edge's
	under  []action             // what the session has begun and not ended
	acks   []*outgoing          // acknowledgements on their way
	losses int                  // that may still happen
}

// change draws a new state of an object; behind a deletion none comes.
func (w *world) change() {
	name := "object-" + strconv.Itoa(w.dice.IntN(5))
	version := uint64(1)
	if old := w.wanted[name]; old != nil {
		if old.deletion {
			return
		}
		version = old.version + 1
	}
	m := state("edge-0", name, version, w.dice.IntN(8) == 0)
	w.wanted[name] = m
	w.box.enqueue(m)
}

// reconnect is a new session, with what its hub's rounds find missing; or in v1.11 with
// what the old one has left.
func (w *world) reconnect() {
	left := w.box.takeUnrecorded()
	w.box, w.under, w.acks = newOutbox(&w.o), nil, nil
	if w.o.Queues == QueuesHead {
		left = nil
		for _, name := range slices.Sorted(maps.Keys(w.wanted)) {
			if m := *w.wanted[name]; w.synced[name] < m.version {
				m.tries = 0
				left = append(left, &m)
			}
		}
	}
	for _, m := range left {
		w.box.enqueue(m)
	}
}

// begin takes what the outbox wants done.
func (w *world) begin() {
	for a, ok := w.box.nextAction(w.now); ok; a, ok = w.box.nextAction(w.now) {
		if m := a.m; a.verb == send && w.synced[m.name] >= m.version {
			w.t.Fatalf("%s@%d is sent, and version %d is acknowledged", m.name, m.version, w.synced[m.name])
		}
		w.under = append(w.under, a)
	}
	if len(w.box.window) > w.o.Window || len(w.box.store) > len(w.wanted) || len(w.box.queue) > len(w.box.store) {
		w.t.Fatalf("%d messages in a window of %d, %d in the queue, %d in the store of %d objects",
			len(w.box.window), w.o.Window, len(w.box.queue), len(w.box.store), len(w.wanted))
	}
}

// end draws one action that ends, and how.
func (w *world) end() {
	if len(w.under) == 0 {
		return
	}
	i := w.dice.IntN(len(w.under))
	a := w.under[i]
	w.under = slices.Delete(w.under, i, i+1)
	if a.verb == record {
		w.synced[a.m.name] = a.m.version
		w.box.onRecorded(a.m)
		return
	}
	if w.lost() {
		w.box.onFailed(a.m, w.now)
		return
	}
	w.box.onSent(a.m, w.now)
	if w.lost() {
		return // on its way to the edge
	}
	if old := w.edge[a.m.name]; old != nil && old.version > a.m.version {
		w.t.Fatalf("the edge gets %s@%d after version %d", a.m.name, a.m.version, old.version)
	}
	w.edge[a.m.name] = a.m
	if !w.lost() {
		w.acks = append(w.acks, a.m)
	}
}

func (w *world) lost() bool {
	if w.losses == 0 || w.dice.IntN(4) > 0 {
		return false
	}
	w.losses--
	return true
}

func (w *world) ack() {
	if len(w.acks) == 0 {
		return
	}
	i := w.dice.IntN(len(w.acks))
	w.box.onAcknowledged(w.acks[i].message.Header.ID)
	w.acks = slices.Delete(w.acks, i, i+1)
}

func (w *world) pass(until clock.Time) {
	w.now = until
	w.box.expireDue(w.now)
}

func (w *world) step() {
	switch w.dice.IntN(10) {
	case 0, 1:
		w.change()
	case 2, 3, 4:
		w.end()
	case 5, 6:
		w.ack()
	case 7, 8:
		w.pass(w.now.Add(time.Duration(w.dice.Int64N(int64(6 * time.Second)))))
	case 9:
		if w.lost() {
			w.reconnect()
		}
	}
	w.begin()
}

// settle lets nothing more be lost until nothing waits.
func (w *world) settle() {
	for w.losses = 0; len(w.box.store) > 0; w.begin() {
		switch {
		case len(w.under) > 0:
			w.end()
		case len(w.acks) > 0:
			w.ack()
		case w.box.wakeAt != 0:
			w.pass(w.box.wakeAt)
		default:
			w.t.Fatalf("%d objects wait for nothing", len(w.box.store))
		}
	}
}

// TestOutboxDelivers draws changes, losses, acknowledgements and reconnects: the last
// state of each object arrives and is recorded, states arrive in their order, what was
// acknowledged is not sent again, and nothing is kept for long.
func TestOutboxDelivers(t *testing.T) {
	for seed := range uint64(200) {
		w := &world{
			t: t, dice: rand.New(rand.NewPCG(seed, 1)), now: 1, losses: 40, wanted: map[string]*outgoing{}, edge: map[string]*outgoing{}, synced: map[string]uint64{},
			o: Options{Window: 1 + int(seed%4), Resends: 3, ResendAfter: 5 * time.Second, Queues: []string{QueuesHead, QueuesV111}[seed/4%2]},
		}
		w.box = newOutbox(&w.o)
		for range 300 {
			w.step()
		}
		w.settle()
		for name, m := range w.wanted {
			if got := w.edge[name]; got == nil || got.version != m.version || w.synced[name] != m.version {
				t.Fatalf("seed %d: of %s@%d the edge has %v, and %d is recorded", seed, name, m.version, got, w.synced[name])
			}
		}
		if len(w.box.window)+len(w.box.queue) > 0 {
			t.Fatalf("seed %d: something is kept when all is delivered", seed)
		}
	}
}
