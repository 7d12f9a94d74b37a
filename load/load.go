// Package load sends API requests at the times when they are due, whatever the
// server does meanwhile: an open loop. What a request costs is copying its body
// into a connection's buffer; goroutines, bodies in flight and memory are
// bounded however far the server falls behind, and a call that leaves late is
// counted as late from the moment it was due.
//
// It decides nothing about pace (package pace) or bodies (package template) and
// judges nothing (package slo). Package experiment calls it.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/endpoint"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/wire"
)

// Source is the Op.Source of this package's calls.
const Source = "load"

// Late is how much later than due a call may leave before it counts as late.
const Late = 100 * time.Millisecond

// Options configure a generator.
type Options struct {
	Endpoint    endpoint.Endpoint
	Records     *record.Writer
	Clock       clock.Clock
	Connections int // HTTP/2 connections, default 4
	InFlight    int // calls at once, default 100 per connection
}

// Pacer says when the i-th call is due, from the begin of its step on. Rate is
// the mean number of calls per second that it asks for, +Inf for a burst.
type Pacer interface {
	Due(i int) time.Duration
	Rate() float64
}

// Plan is one stretch of load: Count calls of one kind.
type Plan struct {
	Op    record.Op
	Count int
	Pace  Pacer
	// Build fills the i-th request; body is an empty slice whose memory may be
	// used for its body. It returns false to skip the call. It is called from
	// one goroutine, in order, shortly before the call is sent.
	Build func(i int, body []byte, req *wire.Request) (bool, error)
	// Done, when set, is told each call's end. It must be quick; it is called
	// from several goroutines.
	Done func(i int, outcome record.Outcome, r *wire.Response)
}

// Generator sends plans, one at a time or several at once.
type Generator struct {
	options Options
	client  *wire.Client
	free    chan *slot
	stats   stats
}

// slot is one call in flight with the memory that it needs.
type slot struct {
	g        *Generator
	run      *flight
	req      wire.Request
	body     []byte
	index    int
	due      clock.Time
	callback func(*wire.Response)
}

// New returns a generator. Close it after use.
func New(o Options) (*Generator, error) {
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.InFlight <= 0 {
		o.InFlight = 100 * o.Connections
	}
	client, err := wire.New(o.Endpoint, wire.Options{
		Connections: o.Connections, UserAgent: "windtunnel-load", Clock: o.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	g := &Generator{options: o, client: client, free: make(chan *slot, o.InFlight)}
	for range o.InFlight {
		s := &slot{g: g}
		s.callback = s.done
		g.free <- s
	}
	return g, nil
}

// Close ends calls in flight as unknown and closes the connections.
func (g *Generator) Close() error { return g.client.Close() }

// Client returns the generator's client, for single requests with its identity.
func (g *Generator) Client() *wire.Client { return g.client }

// flight is a plan under way.
type flight struct {
	plan Plan
	op   record.OpID
	wait sync.WaitGroup
	mu   sync.Mutex
	err  error
	bad  int // bodies that could not be built
}

// ErrBodies says that some bodies could not be made; the calls were not sent
// and are counted as failed.
var ErrBodies = errors.New("bodies could not be made")

// Run sends a plan and returns when every call has ended. When ctx ends it
// sends no more, waits for what is in flight and returns ctx's cause. Failed
// calls are outcomes, not errors; an error of Build is counted, and the first
// one is returned when the plan is through.
func (g *Generator) Run(ctx context.Context, p Plan) error {
	f := &flight{plan: p, op: g.options.Records.Op(p.Op)}
	begin := g.options.Clock.Now()
	g.options.Records.Mark(record.Mark{
		At: begin, Kind: record.MarkRequested, Name: p.Op.Step,
		Text: fmt.Sprintf("%d %g", p.Count, p.Pace.Rate()),
	})
	g.stats.begin(p.Count, p.Pace.Rate(), begin)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var ended error
	for i := range p.Count {
		due := begin.Add(p.Pace.Due(i))
		if ended = g.sleep(ctx, timer, due); ended != nil {
			break
		}
		if ended = g.send(ctx, f, i, due); ended != nil {
			break
		}
	}
	f.wait.Wait()
	if ended != nil {
		return ended
	}
	if f.bad > 0 {
		return fmt.Errorf("%w: %d of %d, the first: %w", ErrBodies, f.bad, p.Count, f.err)
	}
	return nil
}

// sleep waits until a call is due.
func (g *Generator) sleep(ctx context.Context, timer *time.Timer, due clock.Time) error {
	left := g.options.Clock.Until(due)
	if left <= 0 {
		return context.Cause(ctx)
	}
	timer.Reset(left)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send takes a slot, waiting for one when as many calls are in flight as may
// be, and sends.
func (g *Generator) send(ctx context.Context, f *flight, i int, due clock.Time) error {
	var s *slot
	select {
	case s = <-g.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.run, s.index, s.due = f, i, due
	s.req = wire.Request{Discard: true}
	wanted, err := f.plan.Build(i, s.body[:0], &s.req)
	if cap(s.req.Body) > cap(s.body) {
		s.body = s.req.Body[:0]
	}
	switch {
	case err != nil:
		f.spoiled(err)
		g.ended(s, record.Failed, &wire.Response{Done: g.options.Clock.Now(), Err: err})
		return nil
	case !wanted:
		s.release()
		return nil
	}
	f.wait.Add(1)
	g.stats.sent.Add(1)
	g.client.Send(&s.req, s.callback)
	return nil
}

func (f *flight) spoiled(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bad++; f.err == nil {
		f.err = err
	}
}

// done is the callback of a call's end.
func (s *slot) done(r *wire.Response) {
	f := s.run
	s.g.ended(s, outcome(r), r)
	f.wait.Done()
}

// outcome maps an answer to the three values (rule of measurement 2).
func outcome(r *wire.Response) record.Outcome {
	switch {
	case r.Err == nil && r.Code < 400:
		return record.OK
	case r.Err == nil, errors.Is(r.Err, wire.ErrNotSent), r.Sent == 0:
		return record.Failed
	}
	return record.Unknown
}

func (g *Generator) ended(s *slot, o record.Outcome, r *wire.Response) {
	call := record.Call{
		Op: s.run.op, Due: s.due, Sent: r.Sent, Done: r.Done, Code: uint16(r.Code), Outcome: o,
		RetryAfter: r.RetryAfter, SentBytes: uint32(r.SentBytes), ReceivedBytes: uint32(r.ReceivedBytes),
	}
	if call.Sent == 0 {
		call.Sent = r.Done // it never left: all of its time was spent waiting to
	}
	g.options.Records.Call(call)
	g.stats.ended(call)
	if s.run.plan.Done != nil {
		s.run.plan.Done(s.index, o, r)
	}
	s.release()
}

func (s *slot) release() {
	if cap(s.body) > 64<<10 {
		s.body = nil
	}
	s.run = nil
	s.g.free <- s
}
