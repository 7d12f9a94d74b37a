package models

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

// lookAtNode begins to renew the lease of a new node, and plays its stages.
func (e *Engine) lookAtNode(s subject, o *store.Object) {
	if e.models.Binder {
		e.nodesOf(s.cluster).setNode(s.key, o)
	}
	if o == nil {
		e.cancelDelayed(s)
		if b := e.beats[s]; b != nil {
			e.wheel.Stop(&b.timer)
			delete(e.beats, s)
		}
		return
	}
	e.playNodeStages(s, o)
	if e.models.Binder {
		e.retryPending(s.cluster)
	}
	if e.models.Heartbeats <= 0 || e.beats[s] != nil {
		return
	}
	b := &heartbeat{}
	e.beats[s] = b
	b.timer.Fire = func() { e.renewLease(s, b) }
	// Nodes that are made at once do not renew at once.
	s.cluster.RenewLease(s.key, max(1, int32(leaseLasts*e.models.Heartbeats/time.Second)))
	b.due = e.clockTime().Add(time.Duration(e.rng.Int64N(int64(e.models.Heartbeats))) + time.Millisecond)
	e.wheel.Set(&b.timer, b.due)
}

// renewLease renews a lease that is due, and plans the next time.
func (e *Engine) renewLease(s subject, b *heartbeat) {
	s.cluster.RenewLease(s.key, max(1, int32(leaseLasts*e.models.Heartbeats/time.Second)))
	now := e.clockTime()
	e.late.observe(now.Sub(b.due))
	if b.due = b.due.Add(e.models.Heartbeats); b.due < now { // it was late by more than a period
		b.due = now.Add(e.models.Heartbeats)
	}
	e.wheel.Set(&b.timer, b.due)
}
