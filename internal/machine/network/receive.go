package network

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/guard"
)

const (
	strangers = 16   // connections that have not shown the token yet, at most at a time
	accepted  = 0x06 // the byte by which a receiver tells a sender that its connection is taken
)

// receiver takes connections that show a token, and counts what comes out of them.
type receiver struct {
	token    []byte
	listener *net.TCPListener
	maxConns int // connections that it takes

	received atomic.Uint64
	work     guard.Group

	mu       sync.Mutex
	open     map[*net.TCPConn]bool // true: it has shown the token
	taken    int                   // in all
	segments uint64                // of those that have ended
	closed   bool
}

// receiveAt listens at an end, at a port of the system's choice.
func receiveAt(ctx context.Context, at End, token []byte, maxConns int) (*receiver, error) {
	r := &receiver{token: token, maxConns: maxConns, open: map[*net.TCPConn]bool{}}
	err := at.Namespace.Do(func() error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(at.bindAddress(), 0).String())
		if err == nil {
			r.listener = l.(*net.TCPListener) //nolint:forcetypeassert // a listener of "tcp" is no other
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: receiver at %v: %w", ErrNetwork, at.bindAddress(), err)
	}
	r.work.Go(r.acceptConnections)
	return r, nil
}

func (r *receiver) port() uint16 {
	return uint16(r.listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // a listener of "tcp" has no other
}

func (r *receiver) acceptConnections() {
	for {
		c, err := r.listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(shortWait) // no descriptor is left, say
		case r.admitConnection(c):
			r.work.Go(func() { r.readConnection(c) })
		default:
			_ = c.Close()
		}
	}
}

// admitConnection takes note of a connection; false where there are too many strangers already.
func (r *receiver) admitConnection(c *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	unknown := 0
	for _, known := range r.open {
		if !known {
			unknown++
		}
	}
	if r.closed || unknown >= strangers {
		return false
	}
	r.open[c] = false
	return true
}

// readConnection reads from a connection until it ends.
func (r *receiver) readConnection(c *net.TCPConn) {
	defer r.closeConnection(c)
	if !r.hasToken(c) {
		return
	}
	data := make([]byte, piece)
	for {
		n, err := c.Read(data)
		r.received.Add(uint64(n))
		if err != nil {
			return
		}
	}
}

// hasToken tells whether a connection shows the token, and is wanted.
func (r *receiver) hasToken(c *net.TCPConn) bool {
	shown := make([]byte, len(r.token))
	ctx, cancel := context.WithTimeout(context.Background(), handshake)
	defer cancel()
	if deadline, _ := ctx.Deadline(); c.SetDeadline(deadline) != nil {
		return false
	}
	if _, err := io.ReadFull(c, shown); err != nil || subtle.ConstantTimeCompare(shown, r.token) != 1 {
		return false
	}
	r.mu.Lock()
	wanted := r.taken < r.maxConns
	if wanted {
		r.taken, r.open[c] = r.taken+1, true
	}
	r.mu.Unlock()
	if !wanted {
		return false
	}
	if _, err := c.Write([]byte{accepted}); err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.closed && c.SetDeadline(time.Time{}) == nil // a deadline that close has set stays
}

// closeConnection closes a connection, and keeps what its kernel has counted.
func (r *receiver) closeConnection(c *net.TCPConn) {
	r.mu.Lock()
	if r.open[c] {
		r.segments += segmentsIn(c)
	}
	delete(r.open, c)
	r.mu.Unlock()
	_ = c.Close()
}

func segmentsIn(c *net.TCPConn) uint64 {
	info, err := tcpInfo(c)
	if err != nil {
		return 0 // closed meanwhile
	}
	return info.arrived
}

// countReceived returns the bytes and segments that have come, and whether connections are open:
// all that are wanted were taken, and have not all ended.
func (r *receiver) countReceived() (bytes, segments uint64, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	segments = r.segments
	for c, ours := range r.open {
		if ours {
			segments, open = segments+segmentsIn(c), true
		}
	}
	return r.received.Load(), segments, open && r.taken == r.maxConns
}

// close ends all connections and waits until nobody works on them.
func (r *receiver) close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.open {
		_ = c.SetDeadline(time.Unix(1, 0)) // who reads closes it, and counts
	}
	r.mu.Unlock()
	_ = r.listener.Close()
	r.work.Wait()
}
