package wire

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/clock"
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
	out     []byte        // frames that wait for the write loop
	spare   []byte        // the write loop's other buffer
	kick    chan struct{} // out is not empty
	end     chan struct{} // closed when broken
	err     error         // why it broke

	encoder    *hpack.Encoder
	block      blockBuffer // header block under construction
	maxStreams int
	window     int64      // what the server takes on the connection
	initial    int64      // what it takes on a new stream
	held       []*stream  // whose bodies wait for a window
	watch      bool       // it carries one watch and nothing else
	draining   bool       // no new streams: GOAWAY or ids used up
	heard      clock.Time // when the last frame of use came
	probed     clock.Time // when a sign of life was last asked for

	// The read loop's own.
	framer   *http2.Framer
	decoder  *hpack.Decoder
	current  *stream // whose header block is being decoded; nil when unknown
	fragment []byte
	received int64 // bytes of data since the connection's last window update
}

type blockBuffer struct{ b []byte }

func (b *blockBuffer) Write(p []byte) (int, error) { b.b = append(b.b, p...); return len(p), nil }

// connect dials, shakes hands and prepares a connection.
func (c *Client) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: c.tls}
	raw, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.address, err)
	}
	t := raw.(*tls.Conn)
	if p := t.ConnectionState().NegotiatedProtocol; p != http2.NextProtoTLS {
		return nil, errors.Join(fmt.Errorf("connect to %s: the server does not speak HTTP/2", c.address), t.Close())
	}
	k := &conn{
		client: c, net: t, streams: map[uint32]*stream{}, nextID: 1,
		kick: make(chan struct{}, 1), end: make(chan struct{}),
		maxStreams: defaultStreams, window: defaultWindow, initial: defaultWindow,
		heard: c.options.Clock.Now(),
	}
	k.encoder = hpack.NewEncoder(&k.block)
	k.framer = http2.NewFramer(nil, bufio.NewReaderSize(t, 64<<10))
	k.framer.SetReuseFrames()
	k.framer.SetMaxReadFrameSize(1 << 20)
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

// open gives a request its stream and puts its frames into out; the caller
// holds mu and has checked that there is room.
func (k *conn) open(s *stream) {
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
	k.field("user-agent", k.client.options.UserAgent)
	if k.client.auth != "" {
		k.field("authorization", k.client.auth)
	}
	if len(req.Body) > 0 {
		k.field("content-type", req.ContentType)
		k.field("content-length", strconv.Itoa(len(req.Body)))
	}
	flags := http2.FlagHeadersEndHeaders
	if len(req.Body) == 0 {
		flags |= http2.FlagHeadersEndStream
	}
	k.frameHead(len(k.block.b), http2.FrameHeaders, flags, s.id)
	k.out = append(k.out, k.block.b...)
	s.response.Sent = k.client.options.Clock.Now()
	s.response.SentBytes = len(req.Body)
	if len(req.Body) > 0 {
		s.unsent = req.Body
		k.push(s)
	}
	k.wake()
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

// resume tries again what flow control held; callers hold mu.
func (k *conn) resume() {
	held := k.held
	k.held = nil
	for _, s := range held {
		if k.streams[s.id] == s {
			k.push(s)
		}
	}
	k.wake()
}

// probe asks a silent server for a sign of life; callers hold mu.
func (k *conn) probe(now clock.Time) {
	if now.Sub(max(k.heard, k.probed)) < silence/3 {
		return
	}
	k.probed = now
	k.frameHead(8, http2.FramePing, 0, 0)
	k.out = append(k.out, "windtunl"...)
	k.wake()
}

// takeLate removes and returns the streams whose deadline has passed; callers
// hold mu.
func (k *conn) takeLate(now clock.Time) []*stream {
	var late []*stream
	for id, s := range k.streams {
		if s.deadline > now || s.data != nil {
			continue
		}
		late = append(late, s)
		k.drop(id)
		k.reset(id, http2.ErrCodeCancel)
	}
	return late
}

// drop forgets a stream and lets the next request take its room.
func (k *conn) drop(id uint32) {
	delete(k.streams, id)
	if k.current != nil && k.current.id == id {
		k.current = nil
	}
	if k.draining && len(k.streams) == 0 {
		k.broken(ErrClosed)
	}
}

// broken ends the connection; its loops notice. Callers hold mu.
func (k *conn) broken(err error) {
	if k.err != nil {
		return
	}
	k.err = err
	close(k.end)
	_ = k.net.NetConn().Close() // not the TLS farewell: it could block
}

// writeLoop writes what gathers in out: while one write is under way, the
// frames of other requests gather for the next.
func (k *conn) writeLoop() {
	defer k.client.wait.Done()
	for {
		select {
		case <-k.kick:
		case <-k.end:
			return
		}
		k.client.mu.Lock()
		buf := k.out
		k.out = k.spare[:0]
		k.client.mu.Unlock()
		if len(buf) > 0 {
			if _, err := k.net.Write(buf); err != nil {
				k.client.mu.Lock()
				k.broken(fmt.Errorf("%w: %w", ErrLost, err))
				k.client.mu.Unlock()
				return
			}
		}
		if cap(buf) > 1<<20 {
			buf = nil
		}
		k.client.mu.Lock()
		k.spare = buf
		k.client.mu.Unlock()
	}
}
