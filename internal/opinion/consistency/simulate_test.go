package consistency_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/record"
)

// cell is an object of the simulated store.
type cell struct {
	uid, value string
	version    uint64
}

// change is an event of the store.
type change struct {
	at      clock.Time
	key     string
	cell    cell
	deleted bool
}

// op is a write or get under way: it is sent, done in the store, and answered.
type op struct {
	verb, key, value  string
	sent, done, store clock.Time // store: when the store does it; 0: never
	unknown           bool
}

// simulation is a plane with two API servers, and what a probe step sees of it.
type simulation struct {
	random  *rand.Rand
	ops     []op
	state   map[string]cell
	version uint64
	uids    int
	changes []change
	states  []map[string]cell // after each change
	out     []consistency.Access
	fault   string
	victim  int // from this operation on the fault hits the first that it can
	planted bool
}

const (
	keys     = 5
	writes   = 120
	endOfOps = 20_000

	quorumLost, quorumBack = 4000, 8000
)

func newSimulation(seed uint64, fault string) *simulation {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 1)), state: map[string]cell{}, version: 100, fault: fault}
	verbs := []string{"create", "update", "update", "delete"}
	for i := range writes {
		sent := clock.Time(100 * (i + 1))
		o := op{verb: verbs[i/keys%4], key: fmt.Sprintf("k-%d", i%keys), value: fmt.Sprintf("v-%d", i), sent: sent}
		o.store = sent + 1 + clock.Time(s.random.IntN(300))
		o.done = o.store + 1 + clock.Time(s.random.IntN(300))
		if s.random.IntN(8) == 0 && (fault != "quorum lost" || i < writes-keys) { // its answer is lost; the store may do it, and late
			o.unknown, o.done = true, sent+500
			o.store = []clock.Time{0, o.store, sent + clock.Time(s.random.IntN(3000)) + 1}[s.random.IntN(3)]
		}
		if fault == "quorum lost" && sent >= quorumLost && sent < quorumBack { // what the leader has taken is done when there is a quorum again, or never
			o.unknown, o.done = true, sent+500
			o.store = []clock.Time{0, quorumBack + clock.Time(s.random.IntN(300))}[s.random.IntN(2)]
		}
		s.ops = append(s.ops, o)
		if o.verb != "delete" && s.random.IntN(2) == 0 {
			g := op{verb: "get", key: o.key, sent: o.done + 1}
			g.store = g.sent + 1 + clock.Time(s.random.IntN(100))
			g.done = g.store + 1 + clock.Time(s.random.IntN(100))
			s.ops = append(s.ops, g)
		}
	}
	s.ops = append(s.ops, op{verb: "create", key: "end", value: "v-end", sent: endOfOps, store: endOfOps + 1, done: endOfOps + 2})
	s.victim = 30 + s.random.IntN(40)
	return s
}

// run lets the store do the operations in the order of its own time.
func (s *simulation) run() []consistency.Access {
	order := make([]int, len(s.ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(s.ops[a].store - s.ops[b].store) })
	for _, i := range order {
		s.do(i)
	}
	for _, server := range []string{"kube-apiserver-0", "kube-apiserver-1"} {
		s.watch(server)
	}
	for i, server := range []string{"kube-apiserver-0", "kube-apiserver-1"} {
		s.list(server, endOfOps+5000+clock.Time(i*100), s.fault == "diverged" && i == 1)
	}
	return s.out
}

func (s *simulation) do(i int) {
	o := s.ops[i]
	a := consistency.Access{Verb: o.verb, Access: record.Access{Key: o.key, Value: o.value, Sent: o.sent, Done: o.done, Outcome: record.OK, Code: 200}}
	before, exists := s.state[o.key]
	hit := false
	if want := map[string]string{"stale": "get"}[s.fault]; i >= s.victim && !s.planted && exists && !o.unknown && o.verb == cmp.Or(want, "update") && len(s.changes) > 10 {
		hit, s.planted = true, true
	}
	switch {
	case hit && s.fault == "front": // it answers by itself
		a.UID, a.Version = before.uid, s.version
		s.out = append(s.out, a)
		return
	case hit && s.fault == "refused but done":
		s.put(o.store, o.key, cell{before.uid, o.value, 0})
		a.Outcome, a.Code = record.Failed, 409
		s.out = append(s.out, a)
		return
	case hit && s.fault == "set back":
		s.setBack()
		before, exists = s.state[o.key]
	case hit && s.fault == "stale":
		s.planted = false // unless there is something older of the same object that its reader must not see
		for _, w := range s.out {
			if w.Verb == "update" && w.UID == before.uid && w.Done < o.sent && w.Version > 101 {
				before.version, before.value, s.planted = w.Version-1, "", true
			}
		}
		for _, c := range s.changes {
			if s.planted && c.key == o.key && c.cell.uid == before.uid && c.cell.version <= before.version {
				before.value = c.cell.value
			}
		}
	}
	switch {
	case o.store == 0:
	case o.verb == "get":
		a.Value, a.UID, a.Version = before.value, before.uid, before.version
		if !exists {
			a.Outcome, a.Code, a.Value = record.Failed, 404, ""
		}
	case o.verb == "create" && exists || o.verb != "create" && !exists:
		a.Outcome, a.Code = record.Failed, 404
	case o.verb == "delete":
		a.UID, a.Value = before.uid, ""
		s.remove(o.store, o.key)
	default:
		c := cell{before.uid, o.value, 0}
		if o.verb == "create" {
			s.uids++
			c.uid = fmt.Sprintf("u-%d", s.uids)
		}
		a.UID, a.Version = c.uid, s.put(o.store, o.key, c)
		if hit && s.fault == "doubled" {
			s.put(o.store, o.key, cell{c.uid, "v-other", 0})
			s.put(o.store, o.key, c)
		}
	}
	if o.unknown {
		a.Outcome, a.Code, a.UID, a.Version = record.Unknown, 0, "", 0
	}
	s.out = append(s.out, a)
}

// put writes an object.
func (s *simulation) put(at clock.Time, key string, c cell) uint64 {
	s.version++
	c.version = s.version
	s.state[key] = c
	s.note(change{at: at, key: key, cell: c})
	return c.version
}

func (s *simulation) remove(at clock.Time, key string) {
	s.version++
	c := s.state[key]
	c.version = s.version
	delete(s.state, key)
	s.note(change{at: at, key: key, cell: c, deleted: true})
}

func (s *simulation) note(c change) {
	s.changes = append(s.changes, c)
	now := map[string]cell{}
	for k, v := range s.state {
		now[k] = v
	}
	s.states = append(s.states, now)
}

// setBack forgets the last ten changes.
func (s *simulation) setBack() {
	n := len(s.changes) - 10
	s.changes, s.states = s.changes[:n], s.states[:n]
	s.state = map[string]cell{}
	for k, v := range s.states[n-1] {
		s.state[k] = v
	}
	s.version = s.changes[n-1].cell.version
}

// see adds what a list or watch of a server has of an object.
func (s *simulation) see(verb, server string, e record.AccessEvent, key string, c cell, at clock.Time) {
	s.out = append(s.out, consistency.Access{Verb: verb, Access: record.Access{Event: e, Server: server, Key: key, UID: c.uid, Value: c.value, Version: c.version, Sent: at, Done: at + 1, Outcome: record.OK}})
}

// watch lists, and brings the changes; now and then it is torn and lists again.
func (s *simulation) watch(server string) {
	s.see("watch", server, record.AccessList, "", cell{version: 100}, 0)
	dropped, torn := -1, 0
	if s.fault == "dropped frame" && server == "kube-apiserver-1" {
		dropped = 20 + s.random.IntN(30)
	}
	for i := 0; i < len(s.changes); i++ {
		c := s.changes[i]
		if s.random.IntN(40) == 0 && i+5 < len(s.changes) && s.fault != "dropped frame" { // the list has what came meanwhile
			i += s.random.IntN(5)
			torn++
			for key, one := range s.states[i] {
				s.see("watch", server, record.AccessListed, key, one, s.changes[i].at+2)
			}
			s.see("watch", server, record.AccessList, "", cell{version: s.changes[i].cell.version}, s.changes[i].at+2)
			continue
		}
		if i == dropped {
			continue
		}
		event := record.AccessChanged
		if c.deleted {
			event = record.AccessDeleted
		}
		s.see("watch", server, event, c.key, c.cell, c.at+2)
		if s.random.IntN(10) == 0 {
			s.see("watch", server, record.AccessBookmark, "", cell{version: c.cell.version}, c.at+3)
		}
	}
	s.see("watch", server, record.AccessEnd, "", cell{}, endOfOps+4000)
}

// list is a final list.
func (s *simulation) list(server string, at clock.Time, old bool) {
	state := s.state
	if old {
		state = s.states[len(s.states)-40]
	}
	for key, c := range state {
		s.see("list", server, record.AccessListed, key, c, at)
	}
	if s.fault == "invented" {
		s.see("list", server, record.AccessListed, "k-0", cell{"u-x", "v-alien", s.version}, at)
	}
	s.see("list", server, record.AccessList, "", cell{version: s.version}, at)
}

// Right histories, in which one in eight writes has no known outcome and watches are torn,
// violate nothing.
func TestRightHistories(t *testing.T) {
	var unknown, effects, acknowledged int
	for seed := range uint64(200) {
		r := consistency.Check(newSimulation(seed, "").run())
		if len(r.Violations) > 0 || len(r.Incomplete) > 0 {
			t.Fatalf("seed %d: %v %v", seed, r.Violations, r.Incomplete)
		}
		unknown, effects, acknowledged = unknown+r.Unknown, effects+r.TookEffect, acknowledged+r.Acknowledged
	}
	if unknown < 1000 || effects < 300 || acknowledged < 10_000 {
		t.Errorf("%d unknown writes, of which %d were seen, and %d acknowledged: the histories show little", unknown, effects, acknowledged)
	}
}

// While a quorum is lost no write is acknowledged. What is done of those writes later, and what
// is not, violates nothing. The gap begins when the last answer has come: within 600 ticks.
func TestQuorumLost(t *testing.T) {
	effects := 0
	for seed := range uint64(200) {
		r := consistency.Check(newSimulation(seed, "quorum lost").run())
		if len(r.Violations) > 0 || len(r.Incomplete) > 0 {
			t.Fatalf("seed %d: %v %v", seed, r.Violations, r.Incomplete)
		}
		if g := r.Gap; g.From > quorumLost+600 || g.To < quorumBack || g.Writes < 30 {
			t.Errorf("seed %d: gap %+v", seed, g)
		}
		effects += r.TookEffect
	}
	if effects < 1000 {
		t.Errorf("%d unknown writes took effect: the histories show little", effects)
	}
}

// Each planted fault is found in ten of ten histories.
func TestPlantedFaults(t *testing.T) {
	for fault, rules := range map[string]string{
		"front":            "lost unordered missed invented stale",
		"set back":         "lost unordered missed stale doubled",
		"dropped frame":    "missed",
		"invented":         "invented",
		"doubled":          "doubled",
		"stale":            "stale",
		"diverged":         "lost diverged",
		"refused but done": "invented",
	} {
		for seed := range uint64(10) {
			r := consistency.Check(newSimulation(seed, fault).run())
			if !slices.ContainsFunc(r.Violations, func(v consistency.Violation) bool { return strings.Contains(rules, string(v.Rule)) }) {
				t.Errorf("%s, seed %d: not found: %v", fault, seed, r.Violations)
			}
		}
	}
}
