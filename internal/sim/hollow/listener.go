package hollow

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

type clusterKey struct{}

// clusterContext tells requests of which cluster their port is.
func (s *Server) clusterContext(l net.Listener) context.Context {
	if c, ok := l.(*listener); ok {
		return context.WithValue(context.Background(), clusterKey{}, c.cluster)
	}
	return context.Background()
}

// listener is a cluster's own.
type listener struct {
	net.Listener
	cluster *Cluster
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

// stopListening closes the listener and resets all its connections.
func (t *tracked) stopListening() {
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

// serveAt accepts connections to the cluster.
func (c *Cluster) serveAt(l net.Listener) {
	c.listener = &tracked{Listener: l, address: l.Addr().String(), open: map[*trackedConn]struct{}{}}
	c.server.serveListener(&listener{Listener: tls.NewListener(c.listener, c.server.config), cluster: c})
}
