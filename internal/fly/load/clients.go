package load

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Clients are a population of clients, which send the calls of a plan in turn: call i is
// sent by client i modulo Count. The calls keep their due times; a call whose client may
// not send it yet, by its own rate limiter, waits for that and for nothing else.
type Clients struct {
	Name         string // of the population, in the records
	Count        int
	Connections  int     // client i uses connection i modulo Connections
	QPS          float64 // of the token bucket that each client has; 0: no limiter
	Burst        int     // tokens of a full bucket
	Accept       string  // media types of answers; empty: those of each call
	Seed         uint64  // of what informers draw, and of pauses before watches
	Identity     func(client int) Identity
	Certificates bool          // each shows one of user and groups instead of impersonating
	Reader       func() Reader // makes that of a client; nil: watches are read at once

	opened *population // by OpenClients; nil: each plan opens and closes them
}

// Reader says how much of its watches a client reads, as wire.Request.Read does. Begin tells it
// that a watch is open. Package reader has one.
type Reader interface {
	Begin(now clock.Time)
	Read(now clock.Time, waiting int) (n int, next clock.Time)
}

// Identity is what a client says of itself.
type Identity struct {
	User, UserAgent string // empty: the generator's own
	Groups          []string
}

// population is a plan's clients at work. What is not constant is guarded by the flight's mu.
type population struct {
	Clients
	identities  []Identity
	buckets     []bucket
	connections []*wire.Client
	throttled   int // calls that wait for their first turn
}

// maxThrottled bounds the calls of a flight that wait for their clients' limiters: beyond
// it the pace waits, too, which it would have to do anyway.
const maxThrottled = 100_000

// parallelHandshakes is how many connections of a population are opened at the same time.
const parallelHandshakes = 64

// openWithin is how long a step waits for the connections of its clients.
const openWithin = time.Minute

// OpenClients opens clients for several plans, one after another, which then share their
// connections and limiters. The function that it returns closes them.
func (g *Generator) OpenClients(ctx context.Context, c *Clients) (func() error, error) {
	p, err := g.openPopulation(ctx, c)
	if err != nil {
		return nil, err
	}
	c.opened = p
	return func() error {
		c.opened = nil
		return p.close()
	}, nil
}

// openPopulation opens a plan's clients with their connections. A connection that cannot be
// opened is left to the calls of its clients, which fail.
func (g *Generator) openPopulation(ctx context.Context, c *Clients) (*population, error) {
	if c.Count < 1 || c.Connections < 1 || c.Connections > c.Count || c.QPS < 0 || c.QPS > 0 && c.Burst < 1 {
		return nil, fmt.Errorf("%w: %s with %s, %v requests/s, burst %d", ErrPlan, unit.Count(c.Count, "clients"), unit.Count(c.Connections, "connections"), c.QPS, c.Burst)
	}
	p := &population{Clients: *c, identities: make([]Identity, c.Count), buckets: make([]bucket, c.Count), connections: make([]*wire.Client, c.Connections)}
	for i := range p.identities {
		p.identities[i] = c.Identity(i)
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	model, err := wire.New(g.plane.endpoint, wire.Options{UserAgent: userAgent, Clock: g.options.Clock})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	defer model.Close() // it has no connection
	for i := range p.connections {
		if p.connections[i], err = g.openClient(model, c, p.identities[i]); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	var opening guard.Group
	for worker := range min(parallelHandshakes, c.Connections) {
		opening.Go(func() {
			for i := worker; i < c.Connections && ctx.Err() == nil; i += parallelHandshakes {
				p.connections[i].Reserve(ctx, 1)
			}
		})
	}
	opening.Wait()
	return p, nil
}

// openClient makes the connection of a client, or of several that share it.
func (g *Generator) openClient(model *wire.Client, c *Clients, who Identity) (*wire.Client, error) {
	switch {
	case !c.Certificates:
		return model.Another(), nil
	case c.Connections < c.Count || g.options.Issue == nil:
		return nil, fmt.Errorf("%w: a certificate is of one client with a connection, at a plane that issues it", ErrPlan)
	}
	certificate, err := g.options.Issue(who.User, who.Groups)
	if err != nil {
		return nil, fmt.Errorf("load: certificate of %s: %w", who.User, err)
	}
	return model.AnotherAs(certificate), nil
}

// close closes the connections.
func (p *population) close() (err error) {
	for _, c := range p.connections {
		if c == nil { // it was not made any more
			continue
		}
		err = errors.Join(err, c.Close())
	}
	return err
}

// isLimited tells whether the clients have rate limiters.
func (p *population) isLimited() bool { return p != nil && p.QPS > 0 }

// mostUnread returns the most bytes that wait to be read on a connection.
func (p *population) mostUnread() (most int) {
	for _, c := range p.connections {
		most = max(most, c.Unread())
	}
	return most
}

// isFull tells whether so many calls wait for limiters that the pace has to wait; the
// flight's mu is held.
func (p *population) isFull() bool { return p != nil && p.throttled >= maxThrottled }

// take takes a token of the limiter of call i's client, and returns when the call may be sent;
// the flight's mu is held.
func (p *population) take(i int, now clock.Time) clock.Time {
	gap := time.Duration(float64(time.Second) / p.QPS)
	return p.buckets[i%p.Count].take(now, gap, p.Burst)
}

// connectionOf returns the connection of call i's client.
func (p *population) connectionOf(i int) *wire.Client {
	return p.connections[i%p.Count%p.Connections]
}

// sign makes a request that of call i's client.
func (p *population) sign(i int, req *wire.Request) {
	who := &p.identities[i%p.Count]
	if req.UserAgent = who.UserAgent; !p.Certificates {
		req.Impersonate, req.Groups = who.User, who.Groups
	}
	if p.Accept != "" {
		req.Accept = p.Accept
	}
}

// bucket is a token bucket as client-go's rate limiters are, whose tokens may be taken in
// advance: the time at which it is full again, which tells all about it (the virtual
// scheduling of ITU-T I.371's generic cell rate algorithm). The zero value is full.
type bucket clock.Time

// take takes a token of a bucket that gains one in each gap and holds so many, and returns
// when it may be used: now, or later.
func (b *bucket) take(now clock.Time, gap time.Duration, burst int) clock.Time {
	full := clock.Time(*b)
	ahead := time.Duration(min(float64(burst-1)*float64(gap), math.MaxInt64/2))
	at := max(now, full.Add(-ahead))
	*b = bucket(max(full, at).Add(gap))
	return at
}

// chargeLocked has the first of the calls that wait take its token, and tells whether it
// has to wait for it; callers hold mu.
func (f *flight) chargeLocked(now clock.Time) bool {
	c := &f.waiting[0]
	if c.charged || !f.population.isLimited() {
		return false
	}
	c.charged = true
	if at := f.population.take(c.index, now); at > now {
		c.at, c.throttled = at, at.Sub(now)
		heap.Fix(&f.waiting, 0)
		return true
	}
	return false
}

// chargeFollower takes the token of a call that follows another one at once, such as the
// next page of a list: it does not wait for it, and its client's next call waits longer.
func (f *flight) chargeFollower(index int) {
	if f.population.isLimited() {
		f.mu.Lock()
		f.population.take(index, f.g.options.Clock.Now())
		f.mu.Unlock()
	}
}
