// Package proxy is a TCP relay in user space: it listens on 127.0.0.1 in front
// of one address and passes bytes on unchanged, later than they came. It adds
// round-trip time, jitter, a bandwidth and slower answers between a client and
// a server, all of which can be changed while it runs; it cuts connections and
// refuses them.
//
// It is not a proxy: it looks into no bytes unless Options.TLS lets it see
// where an HTTP/2 answer begins, and even then changes none. It loses no bytes
// and reorders none, as TCP does not either. Package plane puts relays between
// the parts of a plane, package experiment steers them.
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

// ErrClosed says that the relay was closed.
var ErrClosed = errors.New("relay closed")

// DefaultQueue is how many bytes may be on their way on one connection in one
// direction.
const DefaultQueue = 8 << 20

// shakeWithin is how long a new connection may take to reach the server.
const shakeWithin = 10 * time.Second

// Options say what to relay.
type Options struct {
	To    string      // the server, host:port
	Clock clock.Clock // of the run; default: a new one
	Seed  uint64      // of the jitter
	// Queue is how many bytes may be on their way on one connection in one
	// direction, with 64 bytes counted for every read; default DefaultQueue.
	// When it is full nothing is read from the sender until there is room: then
	// the relay cuts the throughput to Queue per one-way delay, and Way.Full counts it.
	Queue int
	TLS   *TLS // nil: TLS passes untouched
}

// Relay passes connections on. Its methods may be called from many goroutines.
type Relay struct {
	options  Options
	address  string
	shape    atomic.Pointer[Shape]
	up, down way
	blocks   sync.Pool // of *block
	reserved *port

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	pairs    map[*pair]struct{}
	total    int
	closed   bool
	done     chan struct{} // closed by Close
	wait     sync.WaitGroup
}

// Start listens on a free port of 127.0.0.1. Close the relay after use.
func Start(o Options) (*Relay, error) {
	if _, _, err := net.SplitHostPort(o.To); err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	if o.Clock == (clock.Clock{}) {
		o.Clock = clock.Start()
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	reserved, err := reserve()
	if err != nil {
		return nil, fmt.Errorf("start relay: %w", err)
	}
	r := &Relay{
		options: o, address: reserved.address, reserved: reserved,
		pairs: map[*pair]struct{}{}, done: make(chan struct{}),
	}
	r.blocks.New = func() any { return new(block) }
	r.shape.Store(&Shape{})
	if err := r.Refuse(false); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Addr returns the address that clients connect to, 127.0.0.1:PORT.
func (r *Relay) Addr() string { return r.address }

// Set changes the shape for the bytes that come from now on; those that are on
// their way keep their time, and later ones do not overtake them. The
// bandwidth holds at once. The error says what of the shape makes no sense.
func (r *Relay) Set(s Shape) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("shape of the relay to %s: %w", r.options.To, err)
	}
	r.shape.Store(&s)
	return nil
}

// Shape returns the shape in force.
func (r *Relay) Shape() Shape { return *r.shape.Load() }

// Refuse closes the port or opens it again; connections that exist go on. While
// it is closed the kernel refuses connections, as that of a dead server does.
func (r *Relay) Refuse(refuse bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if refuse != (r.listener != nil) {
		return nil // as it is already
	}
	if refuse {
		err := r.listener.Close()
		r.listener = nil
		return err
	}
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", r.options.To, err)
	}
	r.listener = listener
	r.wait.Go(func() { r.accept(listener) })
	return nil
}

// Cut resets every connection, on both sides and with all that is on its way,
// and returns how many there were. New ones are taken at once.
func (r *Relay) Cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.end(true)
	}
	return len(r.pairs)
}

// Close ends all connections and waits until they have ended. It is idempotent.
func (r *Relay) Close() error {
	r.mu.Lock()
	var err error
	if !r.closed {
		r.closed = true
		close(r.done)
		if r.listener != nil {
			err = r.listener.Close()
		}
		for p := range r.pairs {
			p.end(false)
		}
		err = errors.Join(err, r.reserved.close())
	}
	r.mu.Unlock()
	r.wait.Wait()
	return err
}

// accept serves the connections of one listener until it is closed.
func (r *Relay) accept(l net.Listener) {
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
			case <-r.done:
				return
			}
			continue
		}
		pause = 0
		r.take(conn.(*net.TCPConn))
	}
}

// take serves a new connection.
func (r *Relay) take(client *net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = client.Close() // nothing was written
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shakeWithin)
	p := newPair(r, client, uint64(r.total))
	p.cancel = cancel
	r.pairs[p] = struct{}{}
	r.total++
	r.wait.Go(func() { r.serve(ctx, p) })
}

// serve connects a pair and passes its bytes until it ends. A client whose
// server cannot be reached is reset: the relay has taken it already and cannot
// refuse it any more.
func (r *Relay) serve(ctx context.Context, p *pair) {
	if err := p.connect(ctx); err == nil {
		p.run()
	} else {
		p.end(true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pairs, p)
}
