package member

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/scenario"
)

// Inject does what a fault says of a member. What it returns takes that back.
func (m *Member) Inject(ctx context.Context, p *plane.Plane, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	switch d.Action {
	case "delay", "cut", "stall":
		return m.link.inject(m.Name, d)
	}
	return m.server.inject(ctx, p, m, d)
}

// link is what is between a member and its clients.
type link struct {
	proxy     *proxy.Proxy // nil: clients reach the server directly
	roundTrip time.Duration
	mu        sync.Mutex // it may be longer and its answers slower at the same time
}

// inject does to a member's link what a fault says.
func (l *link) inject(name string, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	if l.proxy == nil {
		return nil, fmt.Errorf("%s %s: nothing is between it and its clients: %w", d.Action, name, plane.ErrNoFault)
	}
	switch d.Action {
	case "cut":
		err := l.proxy.Refuse(true)
		l.proxy.Cut()
		return func(context.Context) error { return l.proxy.Refuse(false) }, err
	case "stall":
		l.proxy.Stall(true)
		return func(context.Context) error { l.proxy.Stall(false); return nil }, nil
	case "slow":
		err := l.change(func(to *proxy.Link) { to.AnswerFactor = d.Factor })
		return func(context.Context) error { return l.change(func(to *proxy.Link) { to.AnswerFactor = 0 }) }, err
	}
	err = l.change(func(to *proxy.Link) { to.RoundTrip = time.Duration(d.RoundTrip) })
	return func(context.Context) error { return l.change(func(to *proxy.Link) { to.RoundTrip = l.roundTrip }) }, err
}

func (l *link) change(do func(*proxy.Link)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := l.proxy.Link()
	do(&to)
	return l.proxy.Emulate(to)
}
