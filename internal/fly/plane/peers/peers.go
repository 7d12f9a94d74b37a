// Package peers joins the members of an etcd through proxies, so that one member can be cut from
// the others while its clients still reach it.
//
// etcd advertises one address of each member to all others, so an address alone does not tell who
// connects. Each member therefore has a front, which finds the process that holds the other end of
// a connection, and a link for each pair of members behind the fronts.
package peers

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Options say which members to join.
type Options struct {
	Members []string
	// Listens returns the address at which a member listens for the others, host:port.
	Listens func(member string) string
	// Process returns the process ID of a member; 0: it does not run.
	Process func(member string) int
	Clock   clock.Clock
	Seed    uint64
}

// pair is who connects, and to whom.
type pair struct{ from, to string }

// Network is the proxies between the members. Its methods may be called from many goroutines.
type Network struct {
	options Options
	fronts  map[string]*proxy.Proxy // by the member that is connected to
	links   map[pair]*proxy.Proxy

	mu  sync.Mutex
	cut map[string]bool
}

// Start starts the proxies. Close them after use.
func Start(o Options) (*Network, error) {
	if err := kernel.Require("a partition between etcd members"); err != nil {
		return nil, err
	}
	n := &Network{options: o, fronts: map[string]*proxy.Proxy{}, links: map[pair]*proxy.Proxy{}, cut: map[string]bool{}}
	if err := n.startPeerProxies(); err != nil {
		return nil, errors.Join(fmt.Errorf("join the members of etcd: %w", err), n.Close())
	}
	return n, nil
}

func (n *Network) startPeerProxies() (err error) {
	o := n.options
	for i, to := range o.Members {
		for j, from := range o.Members {
			if from == to {
				continue
			}
			seed := o.Seed + uint64(i*len(o.Members)+j)
			if n.links[pair{from, to}], err = proxy.Start(proxy.Options{To: o.Listens(to), Clock: o.Clock, Seed: seed}); err != nil {
				return err
			}
		}
	}
	for _, to := range o.Members { // after all links: a front serves from its start on
		choose := func(client, front net.Addr) string { return n.linkOf(client, front, to) }
		if n.fronts[to], err = proxy.Start(proxy.Options{Clock: o.Clock, Choose: choose}); err != nil {
			return err
		}
	}
	return nil
}

// linkOf returns the address of the link by which a client comes to a member; empty: the client
// is no member, or its process is not known yet. It is reset, and etcd connects again.
func (n *Network) linkOf(client, front net.Addr, to string) string {
	from, err := ownerOf(client, front, n.options.Members, n.options.Process)
	link, ok := n.links[pair{from, to}]
	if err != nil || !ok {
		return ""
	}
	return link.Addr()
}

// Addr returns the address at which the others reach a member, host:port.
func (n *Network) Addr(member string) string { return n.fronts[member].Addr() }

// Cut lets no byte pass between a member and the others: connections stay and bring nothing, as
// those through a network that drops every packet.
func (n *Network) Cut(member string) { n.setCut(member, true) }

// Join lets the bytes of a member pass again. What was held meanwhile is handed over.
func (n *Network) Join(member string) { n.setCut(member, false) }

func (n *Network) setCut(member string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[member] = cut
	for p, link := range n.links {
		link.Stall(p.isCut(n.cut))
	}
}

// isCut tells whether either side is cut from the others.
func (p pair) isCut(cut map[string]bool) bool { return cut[p.from] || cut[p.to] }

// Close ends all proxies and waits until they have ended.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	var faults []error
	for _, front := range n.fronts {
		faults = append(faults, closeProxy(front))
	}
	for _, link := range n.links {
		faults = append(faults, closeProxy(link))
	}
	return errors.Join(faults...)
}

func closeProxy(r *proxy.Proxy) error {
	if r == nil { // it did not start
		return nil
	}
	return r.Close()
}
