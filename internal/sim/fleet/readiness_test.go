package fleet

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// TestWhoseWordItIs plays what is seen and written of a pod's condition Ready.
func TestWhoseWordItIs(t *testing.T) {
	const yes, no = "True", "False"
	type event struct {
		version uint64
		ready   string // of an event; empty: the answer to a patch of the fleet
	}
	for name, c := range map[string]struct {
		events  []event
		restore bool
	}{
		"another took it back":                  {[]event{{1, no}, {2, yes}, {3, no}}, true},
		"it was never ready":                    {[]event{{1, no}, {3, no}}, false},
		"another gave it again":                 {[]event{{2, yes}, {3, no}, {4, yes}}, false},
		"the fleet took it back":                {[]event{{2, yes}, {3, ""}, {3, no}}, false},
		"the fleet did, the event came first":   {[]event{{2, yes}, {3, no}, {3, ""}}, false},
		"the fleet did, and something followed": {[]event{{2, yes}, {3, no}, {4, no}, {3, ""}}, false},
		"the fleet wrote before another did":    {[]event{{2, ""}, {2, yes}, {3, no}}, true},
		"an old event":                          {[]event{{2, yes}, {4, ""}, {3, no}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newDriver(Options{Clock: clock.Start(), Connections: 1}, nil)
			r, h := &readiness{driver: e}, &heldReady{}
			for _, s := range c.events {
				if s.ready == "" {
					h.noteOwnVersion(s.version)
					continue
				}
				r.observeCondition(h, &node{}, &object.Pod{Meta: object.Meta{Version: s.version}, Phase: []byte("Running"), Ready: []byte(s.ready)})
			}
			if got := h.job != nil && r.buildRequest(h.job); got != c.restore {
				t.Errorf("restored: %v, want %v", got, c.restore)
			}
		})
	}
}

// TestGoneIsNotRestored: a pod that ends or is being deleted stays as it is.
func TestGoneIsNotRestored(t *testing.T) {
	e := newDriver(Options{Clock: clock.Start(), Connections: 1}, nil)
	r := &readiness{driver: e}
	pod := func(version uint64, phase, ready string, deleting bool) *object.Pod {
		return &object.Pod{Meta: object.Meta{Version: version, Deleting: deleting}, Phase: []byte(phase), Ready: []byte(ready)}
	}
	for _, last := range []*object.Pod{pod(3, "Failed", "False", false), pod(3, "Running", "False", true)} {
		h := &heldReady{}
		r.observeCondition(h, &node{}, pod(1, "Running", "True", false))
		r.observeCondition(h, &node{}, pod(2, "Running", "False", false))
		job := h.job
		r.observeCondition(h, &node{}, last)
		if r.buildRequest(job) {
			t.Errorf("%s: restored", last.Phase)
		}
		if r.forgetPod(h); h.job != nil || e.calls.Len() != 0 {
			t.Errorf("%s: a job is left", last.Phase)
		}
	}
}

// TestFirstSightOfAPod: what a fleet that starts takes a pod's condition for.
func TestFirstSightOfAPod(t *testing.T) {
	condition := func(kind, status, reason string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	for name, c := range map[string]struct {
		conditions []any
		ready      bool
	}{
		"its containers are ready":     {[]any{condition("Ready", "False", ""), condition("ContainersReady", "True", "")}, true},
		"its containers are not":       {[]any{condition("Ready", "False", ""), condition("ContainersReady", "False", "")}, false},
		"nothing is said of them":      {[]any{condition("Ready", "False", "")}, true},
		"it has a reason not to be":    {[]any{condition("Ready", "False", "Warming")}, false},
		"its containers are, it waits": {[]any{condition("Ready", "False", "ReadinessGatesNotReady"), condition("ContainersReady", "True", "")}, false},
	} {
		h := &heldReady{}
		h.meetPod(&object.Pod{Phase: []byte("Running"), Ready: []byte("False")}, func() object.Value {
			return object.Of(map[string]any{"status": map[string]any{"conditions": c.conditions}})
		})
		if h.ready != c.ready {
			t.Errorf("%s: %v", name, h.ready)
		}
	}
}
