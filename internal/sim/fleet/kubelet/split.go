package kubelet

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// splitter gives the connections of one listener to two: those that begin a TLS
// handshake to secure, the others to plain.
type splitter struct {
	from          net.Listener
	plain, secure *half
	places        chan struct{} // one for each connection that has said nothing yet
	wait          guard.Group

	mu     sync.Mutex
	silent map[net.Conn]struct{} // nil when the listener is closed
}

// Limits of connections that have said nothing yet.
const (
	maxSilent     = 512
	silentTimeout = 10 * time.Second
	handshake     = 0x16 // the first byte of a TLS handshake
	acceptPause   = 50 * time.Millisecond
)

func newSplitter(from net.Listener) *splitter {
	done := make(chan struct{})
	half := func() *half { return &half{addr: from.Addr(), conns: make(chan net.Conn), done: done} }
	return &splitter{from: from, plain: half(), secure: half(), places: make(chan struct{}, maxSilent), silent: map[net.Conn]struct{}{}}
}

// acceptConnections accepts until the listener is closed, and waits for what it started.
func (s *splitter) acceptConnections() {
	defer s.wait.Wait()
	defer s.closeSilent()
	for {
		conn, err := s.from.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptPause) // such as too many open files
			continue
		}
		s.places <- struct{}{}
		s.wait.Go(func() {
			defer func() { <-s.places }()
			s.readFirstByte(conn)
		})
	}
}

// readFirstByte reads the first byte of a connection.
func (s *splitter) readFirstByte(conn net.Conn) {
	if !s.setSilent(conn, true) {
		_ = conn.Close()
		return
	}
	first := make([]byte, 1)
	timer := time.AfterFunc(silentTimeout, func() { _ = conn.Close() })
	_, err := conn.Read(first)
	if !timer.Stop() || !s.setSilent(conn, false) || err != nil {
		_ = conn.Close()
		return
	}
	to := s.plain
	if first[0] == handshake {
		to = s.secure
	}
	select {
	case to.conns <- &looked{Conn: conn, first: first}:
	case <-to.done:
		_ = conn.Close()
	}
}

// setSilent notes that a connection is silent, or is not any more; false when the
// listener is closed.
func (s *splitter) setSilent(conn net.Conn, silent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		return false
	}
	if silent {
		s.silent[conn] = struct{}{}
	} else {
		delete(s.silent, conn)
	}
	return true
}

// closeSilent closes the connections that have said nothing yet.
func (s *splitter) closeSilent() {
	close(s.plain.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.silent {
		_ = conn.Close()
	}
	s.silent = nil
}

// looked is a connection whose first byte was read.
type looked struct {
	net.Conn
	first []byte
}

// Read gives the first byte first.
func (c *looked) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// half is a listener of a splitter.
type half struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

// Accept returns the next connection.
func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the splitter's listener is closed.
func (h *half) Close() error { return nil }

// Addr returns the splitter's address.
func (h *half) Addr() net.Addr { return h.addr }
