// Package load sends API requests at the times when they are due, whatever the
// server does meanwhile: an open loop. What a request costs is copying its body
// into a connection's buffer; goroutines, bodies in flight and memory are
// bounded however far the server falls behind, and a call that leaves late is
// counted as late from the moment it was due.
//
// It decides nothing about pace (package pace) or bodies (package template)
// and judges nothing (package slo).
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Source is the Op.Source of this package's calls.
const Source = "load"

// userAgent is how the generator names itself to the server.
const userAgent = "windtunnel-load"

// Options configure a generator.
type Options struct {
	Endpoint    endpoint.Endpoint
	Records     *record.Writer
	Clock       clock.Clock
	Connections int // HTTP/2 connections that calls are spread over, default 4
	Most        int // connections when those are full, about 100 calls on each; default 32
	InFlight    int // calls at once, default 100 for each of Most; held watches do not count
	Burst       int // calls at once of a burst, default 100 for each of Connections
	Watches     int // connections for held watches, about 100 on each, default 100
	// Issue makes the certificate of a user with groups, for Clients with Certificates; nil: the
	// plane's authority is somebody else's.
	Issue func(user string, groups []string) (tls.Certificate, error)
	// Failed, when set, is told the first call of a step that failed in some way, and
	// the first that did so for good, which the records have too. It is called from
	// several goroutines.
	Failed func(record.Event)
}

// Generator sends plans, one at a time or several at once.
type Generator struct {
	options  Options
	plane    *target
	members  []*target // by Request.Member, from 1
	stats    stats
	failures failures

	closing guard.Group // of connections that one call has opened

	mu      sync.Mutex
	free    []*slot
	slots   int       // made so far
	starved []*flight // whose calls wait for a slot
}

// slot is one call in flight with the memory that it needs.
type slot struct {
	g        *Generator
	call     // what it carries
	req      Request
	body     []byte
	scan     scan       // of a page, for the token of the next
	posted   clock.Time // when a request of a population was handed to its client's connection
	callback func(*wire.Response)
	data     func([]byte)
}

// call is one attempt at one call of a flight.
type call struct {
	flight  *flight
	index   int
	attempt int
	unsure  bool   // an attempt before may have been done: nobody saw its end, or the server failed over it
	chain   int    // calls that went before it for the same index
	token   string // of the page to read
	due     clock.Time

	charged   bool          // it has taken a token of its client's limiter
	at        clock.Time    // when that lets it go, if it has to wait
	throttled time.Duration // how long it has to
	until     clock.Time    // of a client's watch that was open: until then it is opened again
	informing *informing    // of a client's informer, from its first request on
	reader    Reader        // of a slow client, from its first watch on
}

// New returns a generator. Close it after use.
func New(o Options) (*Generator, error) {
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.Most <= 0 {
		o.Most = 32
	}
	if o.InFlight <= 0 {
		o.InFlight = 100 * o.Most
	}
	if o.Burst <= 0 {
		o.Burst = 100 * o.Connections
	}
	if o.Watches <= 0 {
		o.Watches = 100
	}
	client, err := wire.New(o.Endpoint, wire.Options{
		Connections: o.Connections, Most: o.Most, UserAgent: userAgent, Clock: o.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return &Generator{options: o, plane: &target{endpoint: o.Endpoint, client: client, resources: discovery.New(client)}}, nil
}

// Close ends calls in flight as unknown and closes the connections.
func (g *Generator) Close() error {
	g.closing.Wait()
	errs := []error{g.plane.close()}
	for _, t := range g.members {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// Client returns the generator's client, for single requests with its identity.
func (g *Generator) Client() *wire.Client { return g.plane.client }

// Resources says where the plane serves what. It asks once for each answer.
func (g *Generator) Resources() *discovery.Cache { return g.plane.resources }

// Run sends a plan and returns when every call has ended. When ctx ends it
// sends no more, waits for what is in flight, closes its watches and returns
// ctx's cause, in a CutShortError if some of the plan's calls were not sent. Failed calls are outcomes, not errors; an error of Build is
// counted, and the first one is returned when the plan is through.
func (g *Generator) Run(ctx context.Context, p Plan) error {
	f, err := g.beginFlight(ctx, p)
	if err != nil {
		return err
	}
	defer g.stats.endPlan(p.shareRate())
	ended := f.runPace(ctx)
	if f.population != nil && p.Clients.opened == nil { // it is this plan's alone
		if err := f.population.close(); ended == nil {
			ended = err
		}
	}
	f.watches.writeSamples(f)
	f.tellRates()
	f.tellFailures()
	if ended != nil {
		return f.explainEnd(ended)
	}
	if f.bad > 0 {
		return fmt.Errorf("%w: %d of %d, the first: %w", ErrBodies, f.bad, p.Share.Count(f.next), f.err)
	}
	return nil
}

// takeSlot returns a free slot, or nil: then the flight is driven again when there
// is one.
func (g *Generator) takeSlot(f *flight) *slot {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.free) - 1; last >= 0 {
		s := g.free[last]
		g.free = g.free[:last]
		return s
	}
	if g.slots == g.options.InFlight {
		if !f.listed {
			f.listed = true
			g.starved = append(g.starved, f)
		}
		return nil
	}
	g.slots++
	s := &slot{g: g}
	s.callback, s.data = s.handleResponse, s.scan.writePiece
	return s
}

// releaseSlot gives a slot back and lets those go on who waited for one.
func (g *Generator) releaseSlot(s *slot) {
	if cap(s.body) > 64<<10 {
		s.body = nil
	}
	s.call, s.req = call{}, Request{}
	g.mu.Lock()
	g.free = append(g.free, s)
	starved := g.starved
	g.starved = nil
	for _, f := range starved {
		f.listed = false
	}
	g.mu.Unlock()
	for _, f := range starved {
		f.sendDue()
	}
}

// Reserve opens the connections that a plan needs, before its time begins.
func (g *Generator) Reserve(ctx context.Context, p Plan) {
	if rate := p.shareRate(); !math.IsInf(rate, 1) && p.Clients == nil {
		g.reserveConnections(ctx, rate)
	}
}
