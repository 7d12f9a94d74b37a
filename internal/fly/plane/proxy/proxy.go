// Package proxy emulates a link. It is a TCP proxy in user space: it listens on
// 127.0.0.1 in front of one address and passes bytes on unchanged, later than they
// came. It adds round-trip time, jitter, a bandwidth and slower answers between a
// client and a server, all of which can be changed while it runs; it cuts
// connections, refuses them, and stalls them.
//
// It is no proxy of HTTP: it looks into no bytes unless Options.TLS lets it see
// where an HTTP/2 answer begins, and even then changes none. It loses no bytes
// and reorders none, as TCP does not either.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// ErrClosed says that the proxy was closed.
var ErrClosed = errors.New("proxy closed")

// DefaultQueue is how many bytes may be on their way on one connection in one
// direction.
const DefaultQueue = 8 << 20

// shakeWithin is how long a new connection may take to reach the server.
const shakeWithin = 10 * time.Second

// Options say what to proxy.
type Options struct {
	To string // the server, host:port
	// Choose names the server of a new connection, in place of To, by the addresses of its client
	// and of the proxy. A client is reset where it names none.
	Choose func(client, proxy net.Addr) string
	Clock  clock.Clock // of the run; default: a new one
	Seed   uint64      // of the jitter
	// Queue is how many bytes may be on their way on one connection in one
	// direction, with 64 bytes counted for every read; default DefaultQueue.
	// When it is full nothing is read from the sender until there is room: then
	// the proxy cuts the throughput to Queue per one-way delay, and Direction.Full counts it.
	Queue int
	TLS   *TLS // nil: TLS passes untouched
}

// Proxy passes connections on. Its methods may be called from many goroutines.
type Proxy struct {
	options  Options
	address  string
	link     atomic.Pointer[Link]
	stalled  atomic.Pointer[chan struct{}] // nil: bytes pass; else closed when they may again
	up, down direction
	blocks   sync.Pool // of *block
	reserved *port

	mu          sync.Mutex
	listener    net.Listener // nil while connections are refused
	connections map[*connection]struct{}
	total       int
	closed      bool
	done        chan struct{} // closed by Close
	wait        sync.WaitGroup
}

// Start listens on a free port of 127.0.0.1. Close the proxy after use.
func Start(o Options) (*Proxy, error) {
	if o.Choose == nil {
		if _, _, err := net.SplitHostPort(o.To); err != nil {
			return nil, fmt.Errorf("start proxy: %w", err)
		}
		o.Choose = func(_, _ net.Addr) string { return o.To }
	}
	if o.Clock == (clock.Clock{}) {
		o.Clock = clock.Start()
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	reserved, err := reservePort()
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{
		options: o, address: reserved.address, reserved: reserved,
		connections: map[*connection]struct{}{}, done: make(chan struct{}),
	}
	p.blocks.New = func() any { return new(block) }
	p.link.Store(&Link{})
	if err := p.Refuse(false); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Addr returns the address that clients connect to, 127.0.0.1:PORT.
func (p *Proxy) Addr() string { return p.address }

// Emulate changes the link for the bytes that come from now on; those that are on
// their way keep their time, and later ones do not overtake them. The
// bandwidth holds at once. The error says what of the link makes no sense.
func (p *Proxy) Emulate(l Link) error {
	if err := l.checkLink(); err != nil {
		return fmt.Errorf("link of the proxy to %s: %w", p.options.To, err)
	}
	p.link.Store(&l)
	return nil
}

// Link returns the link in force.
func (p *Proxy) Link() Link { return *p.link.Load() }

// Refuse closes the port or opens it again; connections that exist go on. While
// it is closed the kernel refuses connections, as that of a dead server does.
func (p *Proxy) Refuse(refuse bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if refuse != (p.listener != nil) {
		return nil // as it is already
	}
	if refuse {
		err := p.listener.Close()
		p.listener = nil
		return err
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", p.options.To, err)
	}
	p.listener = listener
	p.wait.Go(func() { p.acceptConnections(listener) })
	return nil
}

// Stall holds all bytes, in both directions, or lets them go on: what was held is
// handed over then. Connections stay and new ones are taken, so that the two sides
// see a network that brings nothing, and nothing else.
func (p *Proxy) Stall(stall bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.stalled.Load(); stall && held == nil {
		held := make(chan struct{})
		p.stalled.Store(&held)
	} else if !stall && held != nil {
		p.stalled.Store(nil)
		close(*held)
	}
}

// Cut resets every connection, on both sides and with all that is on its way,
// and returns how many there were. New ones are taken at once.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		c.endBoth(true)
	}
	return len(p.connections)
}

// Close ends all connections and waits until they have ended. It is idempotent.
func (p *Proxy) Close() error {
	p.mu.Lock()
	var err error
	if !p.closed {
		p.closed = true
		close(p.done)
		if p.listener != nil {
			err = p.listener.Close()
		}
		for c := range p.connections {
			c.endBoth(false)
		}
		err = errors.Join(err, p.reserved.close())
	}
	p.mu.Unlock()
	p.wait.Wait()
	return err
}

// acceptConnections serves the connections of one listener until it is closed.
func (p *Proxy) acceptConnections(l net.Listener) {
	var pause time.Duration
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, most likely: it may pass
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
			case <-p.done:
				return
			}
			continue
		}
		pause = 0
		p.addConnection(conn.(*net.TCPConn))
	}
}

// addConnection serves a new connection.
func (p *Proxy) addConnection(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close() // nothing was written
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shakeWithin)
	c := newConnection(p, client, uint64(p.total))
	c.cancel = cancel
	p.connections[c] = struct{}{}
	p.total++
	p.wait.Go(func() { p.serveConnection(ctx, c) })
}

// serveConnection connects a pair and passes its bytes until it ends. A client whose
// server cannot be reached is reset: the proxy has taken it already and cannot
// refuse it any more.
func (p *Proxy) serveConnection(ctx context.Context, c *connection) {
	if err := c.connectServer(ctx); err == nil {
		c.passBytes()
	} else {
		c.endBoth(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
}
