package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

var (
	errLeft  = errors.New("the client has left")
	errReset = errors.New("the stream was reset")
)

// conn is a connection. One goroutine reads it; whoever has something to say writes
// it, or leaves that to who is writing already.
type conn struct {
	server   *Server
	net      net.Conn
	template *http.Request // of what all requests of the connection have
	cancel   context.CancelFunc
	idle     *time.Timer
	handlers guard.Group

	// The reader's own.
	framer   *http2.Framer
	decoder  *hpack.Decoder
	head     head      // of the request whose header block is being decoded
	fragment []byte    // a header block that is to be continued
	ends     bool      // its stream ends with it
	begun    []*stream // whose bodies have not come whole, and whose handlers have not been called

	mu       sync.Mutex
	room     sync.Cond // windows have grown, or something was written, or the connection has ended
	waiting  int       // goroutines that wait for room
	streams  map[uint32]*stream
	lastID   uint32 // of the streams that were opened
	skipped  []skip // streams before it that were not, and never will be
	running  int    // handlers
	opened   int    // requests
	seen     int    // of them at the last look for idleness
	flood    flood
	err      error         // why the connection is over
	stall    time.Duration // that a write may take, and up to twice as long
	deadline clock.Time    // of writes

	out      []byte // frames that wait to be written
	writing  bool   // somebody writes, and takes all that gathers
	encoder  *hpack.Encoder
	block    bytes.Buffer // of headers that are being encoded
	window   int64        // what the client takes on the connection
	initial  int64        // and on a new stream
	maxFrame int64        // and in a frame
	taken    int64        // bytes of data that the client may send
	credit   int64        // bytes that were read since it was told of them
}

func newConn(ctx context.Context, s *Server, n net.Conn) *conn {
	ctx, cancel := context.WithCancel(ctx)
	c := &conn{
		server: s, net: n, cancel: cancel, streams: map[uint32]*stream{}, flood: flood{clock: s.o.Clock}, stall: s.o.Stall,
		window: defaultWindow, initial: defaultWindow, maxFrame: defaultFrame, taken: connWindow,
	}
	r := &http.Request{Proto: "HTTP/2.0", ProtoMajor: 2, RemoteAddr: n.RemoteAddr().String(), Body: http.NoBody}
	if t, ok := n.(*tls.Conn); ok {
		state := t.ConnectionState()
		r.TLS = &state
	}
	c.template = r.WithContext(ctx)
	c.room.L = &c.mu
	c.encoder = hpack.NewEncoder(&c.block)
	c.encoder.SetMaxDynamicTableSizeLimit(tableSize)
	c.decoder = hpack.NewDecoder(tableSize, c.takeField)
	c.decoder.SetMaxStringLength(headerLimit)
	c.framer = http2.NewFramer(io.Discard, reader{c})
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(defaultFrame)
	return c
}

// The values of HTTP/2 until settings say otherwise, and the size of header tables.
const (
	defaultWindow = 65535
	defaultFrame  = 16384
	maxWindow     = 1<<31 - 1
	tableSize     = 4096
)

// reader is what frames are read from.
type reader struct{ c *conn }

// Read reads. What the frames before gave rise to leaves first.
func (r reader) Read(p []byte) (int, error) {
	if _, ok := r.c.ownSocket(); !ok {
		r.c.beforeWait()
	}
	return r.c.net.Read(p)
}

// serveConn serves the connection until it ends.
func (c *conn) serveConn() {
	if s, ok := c.ownSocket(); ok {
		s.before = c.beforeWait
		defer func() { s.before = nil }()
	}
	c.idle = time.AfterFunc(c.server.o.Idle, c.checkIdle)
	c.sendSettings()
	c.endConn(c.readFrames())
	c.idle.Stop()
	c.handlers.Wait()
	c.closeLingering()
}

// sendSettings says what the client may do.
func (c *conn) sendSettings() {
	c.mu.Lock()
	defer c.mu.Unlock()
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.server.o.Streams)},
		{ID: http2.SettingMaxHeaderListSize, Val: headerLimit},
		{ID: http2.SettingInitialWindowSize, Val: streamWindow},
	}
	c.frameLocked(6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		c.out = append(c.out, byte(s.ID>>8), byte(s.ID), byte(s.Val>>24), byte(s.Val>>16), byte(s.Val>>8), byte(s.Val))
	}
	c.numberLocked(http2.FrameWindowUpdate, 0, connWindow-defaultWindow)
	c.writeLocked()
}

// readFrames reads until the connection ends, and returns why it did.
func (c *conn) readFrames() error {
	_ = c.net.SetReadDeadline(c.server.timeAfter(prefaceTime))
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(reader{c}, preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2.ClientPreface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	f, err := c.framer.ReadFrame()
	if s, ok := f.(*http2.SettingsFrame); err == nil && (!ok || s.IsAck()) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err != nil {
		return connectionError(err)
	}
	_ = c.net.SetReadDeadline(time.Time{})
	for {
		err = c.handleFrame(f)
		if bad, ok := err.(http2.StreamError); ok { //nolint:errorlint // handle returns it as it is
			err = c.resetStream(bad)
		}
		if err != nil {
			return err
		}
		if f, err = c.framer.ReadFrame(); err != nil {
			return connectionError(err)
		}
	}
}

// connectionError returns why a connection ends whose frames cannot be read. A broken frame of
// one stream is among them: its header block was not decoded, so that those that
// follow cannot be.
func connectionError(err error) error {
	var one http2.StreamError
	switch {
	case errors.As(err, &one):
		return http2.ConnectionError(one.Code)
	case errors.Is(err, http2.ErrFrameTooLarge), errors.Is(err, io.ErrUnexpectedEOF): // shorter than what it is to hold, or than the connection
		return http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	return err
}

// resetStream resets a stream whose client broke a rule.
func (c *conn) resetStream(bad http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[bad.StreamID]; s != nil {
		c.resetLocked(s, bad.Code)
	} else {
		c.numberLocked(http2.FrameRSTStream, bad.StreamID, uint32(bad.Code))
	}
	return c.flood.addUnits(costReset)
}

// beforeWait is called before the reader waits for the network: requests whose bodies have
// not come whole get their goroutines, and what is to be said is written.
func (c *conn) beforeWait() {
	for _, s := range c.begun {
		c.startHandler(s)
	}
	clear(c.begun)
	c.begun = c.begun[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeLocked()
	c.awaitRoomLocked()
}

// endConn ends the connection: a client that broke a rule is told so.
func (c *conn) endConn(why error) {
	var code http2.ConnectionError
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && errors.As(why, &code) {
		c.goAwayLocked(http2.ErrCode(code))
	}
	c.breakLocked(fmt.Errorf("%w: %w", errLeft, why))
}

// leaveConn ends a connection that nobody has broken a rule on.
func (c *conn) leaveConn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.goAwayLocked(http2.ErrCodeNo)
		c.breakLocked(http.ErrServerClosed)
	}
}

// goAwayLocked says that nothing more is looked at.
func (c *conn) goAwayLocked(code http2.ErrCode) {
	c.frameLocked(8, http2.FrameGoAway, 0, 0)
	c.out = append(c.out, byte(c.lastID>>24), byte(c.lastID>>16), byte(c.lastID>>8), byte(c.lastID))
	c.out = append(c.out, byte(code>>24), byte(code>>16), byte(code>>8), byte(code))
	c.writeLocked()
}

// breakLocked has everybody stop: handlers, writers and the reader.
func (c *conn) breakLocked(why error) {
	if c.err != nil {
		return
	}
	c.err = why
	c.cancel()
	for _, s := range c.streams {
		s.more.Broadcast()
	}
	c.room.Broadcast()
	_ = c.net.SetReadDeadline(c.server.o.Clock.Wall(0)) // long ago
}

// closeLingering closes the connection. What was said last is lost when there is something
// unread, so that is read for a while.
func (c *conn) closeLingering() {
	defer c.net.Close()
	raw := c.net
	_ = raw.SetDeadline(c.server.timeAfter(farewellTime))
	if t, ok := raw.(*tls.Conn); ok {
		if t.CloseWrite() != nil {
			return
		}
		raw = t.NetConn()
	}
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, raw)
	}
}

// checkIdle ends a connection that has been without requests since the last look.
func (c *conn) checkIdle() {
	c.mu.Lock()
	busy := len(c.streams) > 0 || c.opened != c.seen
	c.seen = c.opened
	c.mu.Unlock()
	if busy {
		c.idle.Reset(c.server.o.Idle)
		return
	}
	c.leaveConn()
}

// ownSocket returns what is below TLS, if it is one of ours.
func (c *conn) ownSocket() (*Socket, bool) {
	t, ok := c.net.(*tls.Conn)
	if !ok {
		return nil, false
	}
	s, ok := t.NetConn().(interface{ h2() *Socket })
	if !ok {
		return nil, false
	}
	return s.h2(), true
}
