package run

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// TestOutages holds which calls waited for a member that was broken on purpose.
func TestOutages(t *testing.T) {
	b := outages{}
	fault := func(at clock.Time, over bool, members ...string) {
		b.addFault(record.Event{At: at, Type: record.EventFault, Detail: record.Detail{Outage: &record.Outage{Members: members, Over: over}}})
	}
	fault(10, false, "a", "b")
	fault(15, false, "a") // in a second way
	fault(20, true, "a", "b")
	fault(30, true, "a")
	fault(40, false, "b") // has no end
	b.addFault(record.Event{At: 1, Type: record.EventFault, Name: "kube-apiserver"})
	for _, c := range []struct {
		member    string
		due, sent clock.Time
		met       bool
	}{
		{"a", 1, 9, false}, {"a", 1, 10, true}, {"a", 12, 12, true}, {"a", 25, 35, true}, {"a", 29, 31, true}, {"a", 30, 31, false}, {"a", 1, 50, true},
		{"b", 19, 21, true}, {"b", 20, 21, false}, {"b", 39, 39, false}, {"b", 50, 60, true},
		{"c", 1, 100, false}, {"", 1, 100, false},
	} {
		if got := b.wasBroken(c.member, c.due, c.sent); got != c.met {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestHeldCallsAreNotLate holds that the fleet's calls to a broken member do not make
// windtunnel late, and that all others do.
func TestHeldCallsAreNotLate(t *testing.T) {
	c := newCollector(record.Manifest{})
	s := &record.Stream{Ops: []record.Op{
		{Source: Fleet, Verb: "update", Resource: "nodes", Cluster: "a"}, {Source: Fleet, Verb: "update", Resource: "nodes", Cluster: "b"}, {Source: Load, Verb: "create", Resource: "pods", Cluster: "a"},
	}}
	c.stream, c.source = s, &source{stream: s}
	c.addEvent(record.Event{Type: record.EventRunBegan})
	c.addEvent(record.Event{At: 10, Type: record.EventFault, Detail: record.Detail{Outage: &record.Outage{Members: []string{"a"}}}})
	const second = clock.Time(1e9)
	for op := range s.Ops {
		c.addCall(c.source, record.Call{Op: record.OpID(op), Due: second, Sent: 9 * second, Done: 10 * second})
	}
	if n := c.f.Waiting.Fleet.Late; n != 1 || c.f.Waiting.Load.Late != 1 {
		t.Errorf("%d calls of the fleet and %d of the load are late, want 1 and 1", n, c.f.Waiting.Load.Late)
	}
	for i, late := range []int{0, 1, 1} {
		if got := c.f.Calls[i]; got.Late != late || got.Lateness.Len() != late || got.Latency.Len() != 1 {
			t.Errorf("%s to %q: %d late of %d, latency of %d", got.Source, got.Cluster, got.Late, got.Lateness.Len(), got.Latency.Len())
		}
	}
}
