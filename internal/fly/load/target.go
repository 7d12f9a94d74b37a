package load

import (
	"errors"
	"fmt"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// target is an API server that calls are sent to: the plane's, or a member's.
type target struct {
	endpoint  endpoint.Endpoint
	client    *wire.Client
	resources *discovery.Cache

	// The connections of held watches, apart from those of other calls: a watch takes
	// one of the streams of its connection for as long as it is open.
	mu       sync.Mutex
	watching *wire.Client
	closed   bool
}

// memberConnections is how many connections a member's calls may take. Most need
// one: members are many, and each has a small part of the load.
const memberConnections = 4

// AddMember makes another API server known, for calls whose Request.Member is what
// it returns. Calls to it leave one by one: those of many members share no
// connection that they could be bundled on. It is called before plans are sent. Its
// resources are those of like, a member that serves the same, or asked for where
// like is 0.
func (g *Generator) AddMember(e endpoint.Endpoint, like int) (member int, err error) {
	client, err := wire.New(e, wire.Options{Most: memberConnections, UserAgent: userAgent, Clock: g.options.Clock})
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	t := &target{endpoint: e, client: client}
	if like > 0 {
		t.resources = g.members[like-1].resources
	} else {
		t.resources = discovery.New(client)
	}
	g.members = append(g.members, t)
	return len(g.members), nil
}

// MemberResources says where a member serves what.
func (g *Generator) MemberResources(member int) *discovery.Cache { return g.targetOf(member).resources }

// MemberClient returns the client of a member, for single requests.
func (g *Generator) MemberClient(member int) *wire.Client { return g.targetOf(member).client }

// targetOf returns where requests of a member are sent; that of the plane for 0.
func (g *Generator) targetOf(member int) *target {
	if member == 0 {
		return g.plane
	}
	return g.members[member-1]
}

// watchClient returns the client of held watches; it is made when the first watch is
// opened.
func (t *target) watchClient(o Options) (*wire.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watching != nil {
		return t.watching, nil
	}
	if t.closed {
		return nil, wire.ErrClosed
	}
	c, err := wire.New(t.endpoint, wire.Options{Most: o.Watches, UserAgent: userAgent, Clock: o.Clock})
	t.watching = c
	return c, err
}

func (t *target) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	err := t.client.Close()
	if t.watching != nil {
		err = errors.Join(err, t.watching.Close())
	}
	return err
}

// dropWatches closes the watches of a flight.
func (g *Generator) dropWatches(f *flight) {
	own := func(r *wire.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.watches.own[r]
	}
	if f.population != nil {
		for _, c := range f.population.connections {
			c.CloseHeld(own)
		}
	}
	g.plane.dropWatches(own)
	for _, t := range g.members {
		t.dropWatches(own)
	}
}

func (t *target) dropWatches(own func(*wire.Request) bool) {
	t.mu.Lock()
	c := t.watching
	t.mu.Unlock()
	if c != nil {
		c.CloseHeld(own)
	}
}
