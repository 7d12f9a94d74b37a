package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Sizes of HTTP/2 (RFC 9113).
const (
	defaultWindow  = 65535
	maxFrame       = 16384
	streamWindow   = 4 << 20 // what the server may send on a stream before it hears from us
	connWindow     = 1 << 30 // and on the connection
	maxStreamID    = 1<<31 - 1
	defaultStreams = 100 // until the server's settings arrive
)

// conn is one connection. Its fields are guarded by the client's mu, but for
// those that belong to the read loop.
type conn struct {
	client  *Client
	net     *tls.Conn
	streams map[uint32]*stream
	nextID  uint32
	out     []byte        // frames that wait to be written
	fresh   []uint32      // streams that begin in out
	spare   []byte        // the other buffer, while nothing is being written
	writing bool          // someone writes, and takes all that gathers
	kick    chan struct{} // the write loop shall write
	end     chan struct{} // closed when broken
	err     error         // why it broke

	encoder    *hpack.Encoder
	block      blockBuffer // header block under construction
	maxStreams int
	window     int64      // what the server takes on the connection
	initial    int64      // what it takes on a new stream
	held       []*stream  // whose bodies wait for a window
	unanswered int        // bytes of the requests on it
	answered   bool       // it has brought an answer
	draining   bool       // no new streams: GOAWAY or ids used up
	owed       int        // replies in out that the server made us owe it
	place      int        // of the client's; below 0: apart from them
	heard      clock.Time // when the last frame of use came
	probed     clock.Time // when a sign of life was last asked for

	// The read loop's own, used under mu but for in.
	in            *socket
	frames        cutter
	now           clock.Time // when the last bytes came
	decoder       *hpack.Decoder
	current       *stream // whose header block is being decoded; nil when unknown
	fragment      []byte  // a header block that is to be continued
	continued     uint32  // its stream
	continuedLast bool    // the stream ends with it
	received      int64   // bytes of data since the connection's last window update
	idle          idle    // what the server sent that answers nothing
	stray         int64   // bytes that may still come of streams that we gave up
}

type blockBuffer struct{ b []byte }

func (b *blockBuffer) Write(p []byte) (int, error) { b.b = append(b.b, p...); return len(p), nil }

// as returns the TLS configuration of the connection at a place: each has
// another identity where the endpoint has several.
func (c *Client) as(place int) *tls.Config {
	if place <= 0 || len(c.others) == 0 {
		return c.tls
	}
	config := c.tls.Clone()
	other := c.others[(place-1)%len(c.others)]
	config.Certificates = []tls.Certificate{other}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	return config
}

// connect dials, shakes hands and prepares a connection.
func (c *Client) connect(ctx context.Context, place int) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	raw, err := c.endpoint.Dial(ctx, c.address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.address, err)
	}
	in := &socket{Conn: raw, room: make([]byte, c.readSize)}
	t := tls.Client(in, c.as(place))
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", c.address, err), raw.Close())
	}
	if p := t.ConnectionState().NegotiatedProtocol; p != http2.NextProtoTLS {
		return nil, errors.Join(fmt.Errorf("connect to %s: the server does not speak HTTP/2", c.address), t.Close())
	}
	if err := in.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", c.address, err), raw.Close())
	}
	in.ready = true
	k := &conn{
		client: c, place: place, net: t, in: in, streams: map[uint32]*stream{}, nextID: 1,
		kick: make(chan struct{}, 1), end: make(chan struct{}),
		maxStreams: defaultStreams, window: defaultWindow, initial: defaultWindow,
		heard: c.options.Clock.Now(),
	}
	k.encoder = hpack.NewEncoder(&k.block)
	k.decoder = hpack.NewDecoder(4096, k.header)
	k.greet()
	return k, nil
}

// greet puts the preface, our settings and the connection's window into out.
func (k *conn) greet() {
	k.out = append(k.out, http2.ClientPreface...)
	settings := []struct {
		id    http2.SettingID
		value uint32
	}{
		{http2.SettingEnablePush, 0},
		{http2.SettingInitialWindowSize, streamWindow},
		{http2.SettingMaxFrameSize, 1 << 20},
	}
	k.frameHead(6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		k.out = binary.BigEndian.AppendUint16(k.out, uint16(s.id))
		k.out = binary.BigEndian.AppendUint32(k.out, s.value)
	}
	k.windowUpdate(0, connWindow-defaultWindow)
	k.wake()
}

func (k *conn) frameHead(size int, kind http2.FrameType, flags http2.Flags, id uint32) {
	k.out = append(k.out, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	k.out = binary.BigEndian.AppendUint32(k.out, id)
}

func (k *conn) windowUpdate(id uint32, n int) {
	k.frameHead(4, http2.FrameWindowUpdate, 0, id)
	k.out = binary.BigEndian.AppendUint32(k.out, uint32(n))
}

func (k *conn) reset(id uint32, code http2.ErrCode) {
	k.stray += streamWindow
	k.frameHead(4, http2.FrameRSTStream, 0, id)
	k.out = binary.BigEndian.AppendUint32(k.out, uint32(code))
	k.wake()
}

func (k *conn) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// openStreamLocked gives a request its stream and puts its frames into out; the caller
// holds mu, has checked that there is room, and sees to it that out is written.
func (k *conn) openStreamLocked(s *stream) {
	if len(k.streams) == 0 {
		k.heard = k.client.options.Clock.Now() // silence counts from now
	}
	s.id, s.window = k.nextID, k.initial
	k.nextID += 2
	if k.nextID > maxStreamID {
		k.draining = true
	}
	k.streams[s.id] = s
	req := s.request
	k.block.b = k.block.b[:0]
	k.field(":method", req.Method)
	k.field(":scheme", "https")
	k.field(":authority", k.client.host)
	// Paths carry names: they would only push the others out of the table.
	_ = k.encoder.WriteField(hpack.HeaderField{Name: ":path", Value: k.client.prefix + req.Path, Sensitive: true})
	if req.Accept == "" {
		k.field("accept", "application/json")
	} else {
		k.field("accept", req.Accept)
	}
	k.field("user-agent", cmp.Or(req.UserAgent, k.client.options.UserAgent))
	if k.client.auth != "" {
		k.field("authorization", k.client.auth)
	}
	k.impersonate(req)
	if len(req.Body) > 0 {
		k.field("content-type", req.ContentType)
		k.field("content-length", strconv.Itoa(len(req.Body)))
	}
	var flags http2.Flags
	if len(req.Body) == 0 {
		flags = http2.FlagHeadersEndStream
	}
	s.cost = len(k.block.b) + len(req.Body)
	k.unanswered += s.cost
	k.headerFrames(s.id, flags)
	k.fresh = append(k.fresh, s.id)
	s.response.SentBytes = len(req.Body)
	if len(req.Body) > 0 {
		s.unsent = req.Body
		k.push(s)
	}
}

// impersonate says as whom the request acts, if not as oneself.
func (k *conn) impersonate(req *Request) {
	if req.Impersonate != "" {
		k.field("impersonate-user", req.Impersonate)
		for _, group := range req.Groups {
			k.field("impersonate-group", group)
		}
		return
	}
	for _, f := range k.client.actsAs {
		k.field(f.Name, f.Value)
	}
}

// headerFrames puts the encoded block into frames of the size that every server
// takes, whatever it has said of larger ones.
func (k *conn) headerFrames(id uint32, flags http2.Flags) {
	kind, block := http2.FrameHeaders, k.block.b
	for ; len(block) > maxFrame; block = block[maxFrame:] {
		k.frameHead(maxFrame, kind, flags, id)
		k.out = append(k.out, block[:maxFrame]...)
		kind, flags = http2.FrameContinuation, 0
	}
	k.frameHead(len(block), kind, flags|http2.FlagHeadersEndHeaders, id)
	k.out = append(k.out, block...)
}

func (k *conn) field(name, value string) {
	_ = k.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // a blockBuffer takes everything
}

// push writes as much of a body as the windows allow and holds the rest.
func (k *conn) push(s *stream) {
	for len(s.unsent) > 0 {
		n := min(int64(len(s.unsent)), k.window, s.window, maxFrame)
		if n <= 0 {
			k.held = append(k.held, s)
			return
		}
		var flags http2.Flags
		if int(n) == len(s.unsent) {
			flags = http2.FlagDataEndStream
		}
		k.frameHead(int(n), http2.FrameData, flags, s.id)
		k.out = append(k.out, s.unsent[:n]...)
		s.unsent = s.unsent[n:]
		k.window -= n
		s.window -= n
	}
}

// resumeHeldLocked tries again what flow control held; callers hold mu.
func (k *conn) resumeHeldLocked() {
	held := k.held
	k.held = nil
	for _, s := range held {
		if k.streams[s.id] == s {
			k.push(s)
		}
	}
	k.wake()
}

// probeLocked asks a silent server for a sign of life; callers hold mu.
func (k *conn) probeLocked(now clock.Time) {
	if now.Sub(max(k.heard, k.probed)) < silence/3 {
		return
	}
	k.probed = now
	k.frameHead(8, http2.FramePing, 0, 0)
	k.out = append(k.out, "windtunl"...)
	k.wake()
}

// takeLateLocked removes and returns the streams whose deadline has passed, and when the
// first of the others' will; callers hold mu.
func (k *conn) takeLateLocked(now clock.Time) (late []*stream, next clock.Time) {
	next = math.MaxInt64
	for id, s := range k.streams {
		switch {
		case s.solo != nil && (s.feeding || s.response.Success()): // while it is fed the answer is the read loop's
			continue
		case s.deadline > now || s.feeding:
			next = min(next, s.deadline)
			continue
		}
		late = append(late, s)
		if s.response.Sent == 0 {
			s.response.Sent = now // it is in out, and may yet reach the server
		}
		k.drop(id)
		k.reset(id, http2.ErrCodeCancel)
	}
	return late, next
}

// drop forgets a stream and lets the next request take its room.
func (k *conn) drop(id uint32) {
	k.forget(id)
	if k.draining && len(k.streams) == 0 {
		k.breakLocked(ErrClosed)
	}
}

// breakLocked ends the connection; its loops notice. Callers hold mu.
func (k *conn) breakLocked(err error) {
	if k.err != nil {
		return
	}
	k.err = err
	close(k.end)
	k.in.end() // not the TLS farewell: it could block
}

// forget takes a stream from the connection.
func (k *conn) forget(id uint32) {
	if s := k.streams[id]; s != nil {
		if len(s.unsent) > 0 { // it ends before all was sent, and may be another request soon
			k.held = slices.DeleteFunc(k.held, func(h *stream) bool { return h == s })
		}
		k.unanswered -= s.cost
		delete(k.streams, id)
		delete(k.client.slow, s)
	}
}

// inline is how many bytes of unanswered requests a connection may have for
// others than the write loop to write to it: so much fits into the socket's
// buffers, and whoever writes is not held.
const inline = 64 << 10

// flushLocked writes what waits. Callers hold mu, which is free while it writes. While
// one write is under way, the frames of other requests gather for the next.
func (k *conn) flushLocked() {
	if k.unanswered > inline {
		k.wake()
		return
	}
	k.writeLocked()
}

// writeLocked writes until nothing waits; callers hold mu, which is free meanwhile.
func (k *conn) writeLocked() {
	if k.writing || len(k.out) == 0 {
		return
	}
	k.writing = true
	for len(k.out) > 0 && k.err == nil {
		buf := k.out
		k.out, k.spare, k.owed = k.spare[:0], nil, 0
		k.stampSentLocked()
		k.client.mu.Unlock()
		_, err := k.net.Write(buf)
		k.client.mu.Lock()
		if err != nil {
			k.breakLocked(fmt.Errorf("%w: %w", ErrLost, err))
		}
		if cap(buf) <= 1<<20 {
			k.spare = buf
		}
	}
	k.writing = false
}

// stampSentLocked says of the requests that are about to be written that they are sent;
// callers hold mu.
func (k *conn) stampSentLocked() {
	now := k.client.options.Clock.Now()
	for _, id := range k.fresh {
		if s := k.streams[id]; s != nil {
			s.response.Sent = now
		}
	}
	k.fresh = k.fresh[:0]
}

// writeLoop writes for those who would not wait for it.
func (k *conn) writeLoop() {
	defer k.client.wait.Done()
	for {
		select {
		case <-k.kick:
		case <-k.end:
			return
		}
		k.client.mu.Lock()
		k.writeLocked()
		k.client.mu.Unlock()
	}
}
