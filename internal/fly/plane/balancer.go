package plane

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/scenario"
)

// balancerName is the name of the balancer's proxy.
const balancerName = "balancer"

// rotation decides which server gets the next connection: each that is healthy in turn.
type rotation struct {
	failures int   // in a row after which a server gets none
	failed   []int // in a row, by server
	turn     int
}

func newRotation(servers, failures int) *rotation {
	r := &rotation{failures: failures, failed: make([]int, servers)}
	for i := range r.failed {
		r.failed[i] = failures // until it has answered
	}
	return r
}

// note takes note of a server's answer, or that there was none.
func (r *rotation) note(server int, ready bool) {
	if ready {
		r.failed[server] = 0
	} else {
		r.failed[server]++
	}
}

// next returns the server of the next connection; -1: none is healthy.
func (r *rotation) next() int {
	for range r.failed {
		i := r.turn
		r.turn = (r.turn + 1) % len(r.failed)
		if r.failed[i] < r.failures {
			return i
		}
	}
	return -1
}

// healthy tells whether any server is.
func (r *rotation) healthy() bool {
	return slices.ContainsFunc(r.failed, func(n int) bool { return n < r.failures })
}

// balancer is a TCP load balancer before the API servers. While none is ready the kernel
// refuses connections in its place.
type balancer struct {
	proxy    *proxy.Proxy
	settings scenario.Balancer
	servers  []string // names of the API servers
	asks     func(server string) (*Asker, error)
	report   func(kind string) // told when no server is ready any more, and when one is again
	cancel   context.CancelFunc
	wait     guard.Group

	mu       sync.Mutex
	rotation *rotation
}

// newBalancer opens the balancer's port; start begins to ask the servers.
func newBalancer(p *Plane, cfg scenario.Plane, s site, o Options) (*balancer, error) {
	b := &balancer{
		settings: cfg.Balancer, servers: cfg.Processes(component.APIServer),
		asks:   func(server string) (*Asker, error) { return newAsker(p.scrapes[server]) },
		report: func(kind string) { p.reportFault(FaultEvent{At: p.clock.Now(), Component: balancerName, Kind: kind}) },
	}
	if b.settings == (scenario.Balancer{}) {
		b.settings = scenario.Default().Plane.Balancer
	}
	b.rotation = newRotation(len(b.servers), b.settings.Failures)
	var err error
	b.proxy, err = proxy.Start(proxy.Options{Clock: o.Clock, Seed: o.Seed, Choose: func(_, _ net.Addr) string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if i := b.rotation.next(); i >= 0 {
			return strings.TrimPrefix(s.serverURL(b.servers[i]), "https://")
		}
		return ""
	}})
	return b, err
}

// start asks every server once, and from then on at each interval. No balancer is fine.
func (b *balancer) start(ctx context.Context) error {
	if b == nil {
		return nil
	}
	asks := make([]*Asker, len(b.servers))
	for i, name := range b.servers {
		var err error
		if asks[i], err = b.asks(name); err != nil {
			return err
		}
		b.ask(ctx, i, asks[i])
	}
	ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for i := range b.servers {
		b.wait.Go(func() {
			defer asks[i].client.CloseIdleConnections()
			tick := time.NewTicker(time.Duration(b.settings.Interval))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if kind := b.ask(ctx, i, asks[i]); kind != "" && ctx.Err() == nil {
						b.report(kind)
					}
				}
			}
		})
	}
	return nil
}

// ask asks a server whether it is ready. kind is not empty where it is the last that was ready,
// or the first that is again.
func (b *balancer) ask(ctx context.Context, server int, asker *Asker) (kind string) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.settings.Interval))
	defer cancel()
	ready := asker.Ask(ctx, "/readyz", nil, nil) == nil
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.rotation.healthy()
	b.rotation.note(server, ready)
	after := b.rotation.healthy()
	_ = b.proxy.Refuse(!after) // closed: the plane ends
	return healthChange(before, after)
}

// healthChange names the change from any server being ready to none, and back.
func healthChange(before, after bool) (kind string) {
	switch {
	case before && !after:
		return NoServer
	case !before && after:
		return ServerReady
	}
	return ""
}

// stop ends the questions.
func (b *balancer) stop() {
	if b != nil && b.cancel != nil {
		b.cancel()
		b.wait.Wait()
	}
}
