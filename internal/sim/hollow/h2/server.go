// Package h2 serves HTTP/2 (RFC 9113) with little CPU for a request: what need not
// wait is answered by the goroutine that reads the connection, and answers and
// events that come together leave in one record of TLS and one write. It takes the
// place of net/http's HTTP/2, behind which each frame goes through three goroutines.
//
// Handlers are those of net/http. There are no pushes, no trailers of answers and no
// priorities, and HTTP/1.1 is left to net/http.
package h2

import (
	"context"
	"crypto/tls"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// Limits of what a client may have the server keep or do, beside those of Options.
const (
	headerLimit  = 256 << 10 // of a request's header list
	streamWindow = 1 << 20   // bytes of a body that wait for its handler
	connWindow   = 1 << 20   // likewise, of all bodies of a connection
	outLimit     = 64 << 10  // bytes that wait to be written while who has more waits
	flushAt      = 14 << 10  // bytes at which the reader writes before it goes on: they fit into one record
	prefaceTime  = 30 * time.Second
	farewellTime = 250 * time.Millisecond // for a client to read why its connection ends
)

// Options say how a server behaves.
type Options struct {
	Handler http.Handler
	// Quick says of a request, whose body has come, that its answer waits for nothing
	// and nobody: the goroutine that reads the connection calls the handler, whose
	// context ends with the connection. All other requests get a goroutine each. It may
	// be nil.
	Quick func(*http.Request) bool
	Clock clock.Clock
	// Streams is how many requests of a connection may be under way; default 1000.
	Streams int
	// Idle is how long a connection may be without requests, after which it is closed,
	// at the latest when that has passed twice; default 2 min.
	Idle time.Duration
	// Stall is how long a client may leave unread what is written to it, which may
	// become twice as long; default 1 min.
	Stall time.Duration
	// Timeout is how long a request may wait for its client: for its body, and then for
	// windows that let its answer through, each from the first time that it waits; default
	// 1 min. Then its body cannot be read any more, or its stream is reset. A handler sets
	// another moment by http.ResponseController: that of a watch, before each flush.
	Timeout time.Duration
	// ErrorLog is told of handlers that panic; default: the standard logger.
	ErrorLog *log.Logger
}

// Server serves connections. Close it after use.
type Server struct {
	o       Options
	dated   atomic.Pointer[dated] // the present second
	buffers sync.Pool             // of frames

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closed  bool
	serving guard.Group
}

// New returns a server.
func New(o Options) *Server {
	if o.Streams == 0 {
		o.Streams = 1000
	}
	if o.Idle == 0 {
		o.Idle = 2 * time.Minute
	}
	if o.Stall == 0 {
		o.Stall = time.Minute
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.Default()
	}
	return &Server{o: o, conns: map[*conn]struct{}{}}
}

// ServeTLS is a value of http.Server.TLSNextProto.
func (s *Server) ServeTLS(_ *http.Server, t *tls.Conn, h http.Handler) {
	ctx := context.Background()
	if b, ok := h.(interface{ BaseContext() context.Context }); ok { // net/http's way to hand it over
		ctx = b.BaseContext()
	}
	s.Serve(ctx, t)
}

// Serve serves a connection until it ends, and closes it. It waits for the
// connection's handlers. Requests have ctx's values.
func (s *Server) Serve(ctx context.Context, n net.Conn) {
	c := newConn(ctx, s, n)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = n.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	c.serveConn()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Close says GOAWAY on all connections, ends them and waits for their handlers. It
// is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range open { // nobody waits for those that read nothing
		c.mu.Lock()
		c.stall, c.deadline = farewellTime, 0
		c.extendLocked()
		c.mu.Unlock()
	}
	for _, c := range open {
		c.leaveConn()
	}
	s.serving.Wait()
	return nil
}

// timeAfter returns when a time has passed from now.
func (s *Server) timeAfter(d time.Duration) time.Time { return s.o.Clock.Wall(s.o.Clock.Now().Add(d)) }

// dated is a second as headers have it.
type dated struct {
	second int64
	text   string
}

// dateHeader returns the value of the header Date.
func (s *Server) dateHeader() string {
	now := s.timeAfter(0)
	d := s.dated.Load()
	if d == nil || d.second != now.Unix() {
		d = &dated{now.Unix(), now.Format(http.TimeFormat)}
		s.dated.Store(d)
	}
	return d.text
}

// takeBuffer returns an empty buffer.
func (s *Server) takeBuffer() []byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, flushAt)
}

// returnBuffer takes a buffer back.
func (s *Server) returnBuffer(b []byte) {
	if cap(b) <= 2*outLimit {
		s.buffers.Put(&b)
	}
}
