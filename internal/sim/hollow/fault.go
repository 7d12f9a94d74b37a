package hollow

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
)

// Faults of clusters: what can happen to a real one whose process is killed, whose
// clients' credentials expire, whose store comes back older, whose answers are slow.

// Client returns how to reach a cluster as a user that may do everything until
// Expire.
func (c *Cluster) Client() endpoint.Endpoint {
	return endpoint.Bearer(c.address, c.server.ca, c.server.client)
}

// Expire lets the credentials of Client expire: whoever shows them is answered 401.
func (c *Cluster) Expire() { c.expired.Store(true) }

// Renew takes them again.
func (c *Cluster) Renew() { c.expired.Store(false) }

// isClient says whether a token is that of Client, and is still good.
func (c *Cluster) isClient(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.server.client)) == 1 && !c.expired.Load()
}

// Slow lets answers, but not watches, take so many times as long as they would; 1
// is as they are.
func (c *Cluster) Slow(factor float64) {
	c.factor.Store(int64(factor * slowUnit))
}

// slowUnit is how a factor is kept as an integer.
const slowUnit = 1000

// tarry waits until an answer has taken as long as it is to.
func (a *answer) tarry() {
	if a.cluster == nil {
		return
	}
	factor := a.cluster.factor.Load()
	if factor <= slowUnit {
		return
	}
	took := a.cluster.server.clock.Now().Sub(a.began)
	select {
	case <-time.After(min(took*time.Duration(factor-slowUnit)/slowUnit, backend.RequestTimeout)):
	case <-a.r.Context().Done():
	case <-a.cluster.server.done:
	}
}

// Stop breaks all connections of a cluster and refuses new ones, as if its process
// had been killed. What it stores stays.
func (c *Cluster) Stop() {
	if c.down.Swap(true) {
		return
	}
	close(*c.halt.Load())
	if c.listener != nil {
		c.listener.stop()
	}
}

// Start takes connections again, at the same address. The error says that somebody
// else has the port by now.
func (c *Cluster) Start() error {
	if !c.down.Load() {
		return nil
	}
	if c.listener != nil {
		l, err := net.Listen("tcp", c.listener.address)
		if err != nil {
			return fmt.Errorf("listen for hollow cluster %s again: %w", c.Name, err)
		}
		c.serveAt(l)
	}
	c.halt.Store(new(make(chan struct{})))
	c.down.Store(false)
	return nil
}

// breakOff ends a request to a cluster that is down, without an answer.
func (c *Cluster) breakOff() {
	if c.down.Load() {
		panic(http.ErrAbortHandler)
	}
}

// tracked is a listener that knows its connections, so that they can be broken.
type tracked struct {
	net.Listener
	address string

	mu      sync.Mutex
	open    map[*trackedConn]struct{}
	stopped bool
}

type trackedConn struct {
	*h2.Socket
	of *tracked
}

// Accept waits for a connection.
func (t *tracked) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &trackedConn{h2.NewSocket(conn), t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		_ = conn.Close()
	}
	t.open[out] = struct{}{}
	return out, nil
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Socket.Close()
}

// stop closes the listener and resets all its connections.
func (t *tracked) stop() {
	_ = t.Close()
	t.mu.Lock()
	t.stopped = true
	open := t.open
	t.open = map[*trackedConn]struct{}{}
	t.mu.Unlock()
	for c := range open {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	}
}

// State is what a cluster stored at some time.
type State = registry.State

// Copy returns what a cluster stores now. Tables are copied one after another.
func (c *Cluster) Copy() State { return c.registry.Copy() }

// Restore gives a cluster what it had stored. Versions go on, as after a restored
// snapshot of etcd whose revision was bumped: watches see what changes.
func (c *Cluster) Restore(then State) { c.backend.Restore(then) }
