package hollow

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// leaseLasts is how many times as long as its renewal takes a lease lasts.
const leaseLasts = 4

// heartbeat is a node's lease that is renewed.
type heartbeat struct {
	timer wheel.Timer
	due   clock.Time
}

// node begins to renew the lease of a new node, and plays its stages.
func (e *engine) node(s subject, o *store.Object) {
	if e.models.Binder {
		e.nodesOf(s.cluster).see(s.key, o)
	}
	if o == nil {
		e.cancel(s)
		if b := e.beats[s]; b != nil {
			e.wheel.Stop(&b.timer)
			delete(e.beats, s)
		}
		return
	}
	e.nodeStage(s, o)
	if e.models.Binder {
		e.retry(s.cluster)
	}
	if e.models.Heartbeats <= 0 || e.beats[s] != nil {
		return
	}
	b := &heartbeat{}
	e.beats[s] = b
	b.timer.Fire = func() { e.beat(s, b) }
	// Nodes that are made at once do not renew at once.
	s.cluster.backend.RenewLease(s.key, max(1, int32(leaseLasts*e.models.Heartbeats/time.Second)))
	b.due = e.now().Add(time.Duration(e.rng.Int64N(int64(e.models.Heartbeats))) + time.Millisecond)
	e.wheel.Set(&b.timer, b.due)
}

// beat renews a lease that is due, and plans the next time.
func (e *engine) beat(s subject, b *heartbeat) {
	s.cluster.backend.RenewLease(s.key, max(1, int32(leaseLasts*e.models.Heartbeats/time.Second)))
	now := e.now()
	e.late.observe(now.Sub(b.due))
	if b.due = b.due.Add(e.models.Heartbeats); b.due < now { // it was late by more than a period
		b.due = now.Add(e.models.Heartbeats)
	}
	e.wheel.Set(&b.timer, b.due)
}
