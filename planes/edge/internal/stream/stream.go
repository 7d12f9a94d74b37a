// Package stream carries messages between hub and edges over QUIC: RFC 9000, mutual
// TLS 1.3, one stream a connection, on which each message is its length in four bytes,
// big endian, and then what a websocket would carry.
//
// KubeEdge's own QUIC is Google's of 2018 and speaks to nothing of today: this is an arm
// of ours, beside package link's websockets, to learn what it would cost.
package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
)

// protocol is what both ends name in the handshake, as RFC 9001, section 8.1, demands.
const protocol = "windtunnel-edge"

// idle is how long a connection may bring nothing; keepalives come each 15 s.
const idle = time.Minute

const (
	headBytes = 4
	maxHeader = 16 << 10 // bytes of what an edge says of itself
)

// configOf bounds what a peer may have us keep: one stream, and of it a window.
func configOf(handshake time.Duration) *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: handshake, MaxIdleTimeout: idle, MaxIncomingStreams: 1, MaxIncomingUniStreams: -1,
		InitialStreamReceiveWindow: 64 << 10, InitialConnectionReceiveWindow: 96 << 10,
	}
}

func withProtocol(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.MinVersion, config.NextProtos = tls.VersionTLS13, []string{protocol}
	return config
}

// Conn is a connection. Send may be called from many goroutines.
type Conn struct {
	quic    *quic.Conn
	stream  *quic.Stream
	limit   int
	writeBy time.Duration
	writing sync.Mutex
	slow    atomic.Bool
	bytes   *link.Bytes // of messages, with their lengths; what QUIC and TLS add is not known here
}

// Close ends the connection; Serve returns, which tells its handler.
func (c *Conn) Close() error { return c.quic.CloseWithError(0, "") }

// SetBytes says who counts what is carried; before the connection is used.
func (c *Conn) SetBytes(b *link.Bytes) { c.bytes = b }

// SetWriteTimeout says how long a peer may not read; 0: without end. It is called before
// the connection is used.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.writeBy = d }

// Send sends one message. It returns when QUIC has taken it; where the peer does not read
// within the time for that, the connection ends, and its handler gets link.ErrSlow.
func (c *Conn) Send(message []byte) error {
	b := append(binary.BigEndian.AppendUint32(make([]byte, 0, headBytes+len(message)), uint32(len(message))), message...)
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.writeBy > 0 {
		late := time.AfterFunc(c.writeBy, func() {
			c.slow.Store(true)
			_ = c.Close() // it never fails
		})
		defer late.Stop()
	}
	n, err := c.stream.Write(b)
	c.bytes.Sent.Add(uint64(n))
	return err
}

// Serve hands messages to a handler until the connection ends, and then tells it so. A
// message is valid until the handler returns.
func (c *Conn) Serve(h link.Handler) {
	err := c.serveMessages(h)
	_ = c.Close() // it never fails
	if c.slow.Load() {
		err = link.ErrSlow
	}
	h.Ended(err)
}

func (c *Conn) serveMessages(h link.Handler) error {
	var message []byte
	for {
		var err error
		if message, err = c.readMessage(message[:0], c.limit); err != nil {
			return err
		}
		if err := h.Message(message); err != nil {
			return err
		}
		if cap(message) > keptBuffer {
			message = nil
		}
	}
}

const keptBuffer = 4 << 10 // a larger one is not kept

// readMessage reads one message into b.
func (c *Conn) readMessage(b []byte, limit int) ([]byte, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(c.stream, head[:]); err != nil {
		return nil, endError(err)
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > limit {
		return nil, fmt.Errorf("%w: %s, more than %d", link.ErrTooLarge, unit.Count(n, "bytes"), limit)
	}
	out := bytes.NewBuffer(b) // grows with what comes, not with what the peer says
	if _, err := io.CopyN(out, c.stream, int64(n)); err != nil {
		return nil, endError(err)
	}
	c.bytes.Received.Add(uint64(headBytes + n))
	return out.Bytes(), nil
}

// endError makes io.EOF of an end that the peer wanted.
func endError(err error) error {
	var application *quic.ApplicationError
	if errors.As(err, &application) && application.ErrorCode == 0 {
		return io.EOF
	}
	return err
}

// Dialer opens connections from one socket.
type Dialer struct{ transport *quic.Transport }

// NewDialer returns a dialer that sends from a free port of an address. Close it after
// use, which ends its connections.
func NewDialer(from net.IP) (*Dialer, error) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: from})
	if err != nil {
		return nil, fmt.Errorf("open a socket for QUIC: %w", err)
	}
	return &Dialer{&quic.Transport{Conn: socket}}, nil
}

// Close ends all connections of the dialer.
func (d *Dialer) Close() error { return errors.Join(d.transport.Close(), d.transport.Conn.Close()) }

// Dial opens a connection to host:port and says who is there. The error is
// link.ErrRefused, with what the hub says, where it does not let in.
func (d *Dialer) Dial(ctx context.Context, address string, header http.Header, config *tls.Config) (*Conn, error) {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("dial by QUIC: %w", err)
	}
	conn, err := d.transport.Dial(ctx, to, withProtocol(config), configOf(0))
	if err != nil {
		return nil, fmt.Errorf("dial by QUIC: %w", err)
	}
	c := &Conn{quic: conn, limit: link.DefaultLimit, bytes: &link.Bytes{}}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.introduceSelf(ctx, header); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// introduceSelf says who is there, and reads whether that is let in.
func (c *Conn) introduceSelf(ctx context.Context, header http.Header) (err error) {
	if c.stream, err = c.quic.OpenStreamSync(ctx); err != nil {
		return err
	}
	who, err := json.Marshal(header)
	if err == nil {
		err = c.Send(who)
	}
	if err != nil {
		return err
	}
	answer, err := c.readMessage(nil, maxHeader)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", link.ErrRefused, err)
	case len(answer) > 0:
		return fmt.Errorf("%w: %s", link.ErrRefused, answer)
	}
	return nil
}

// Listener takes connections.
type Listener struct {
	transport *quic.Transport
	listener  *quic.Listener
}

// Listen listens on an address; a handshake has some time. admit is asked before each
// and may refuse it; the peer has to try again.
func Listen(address string, config *tls.Config, handshake time.Duration, admit func() bool) (*Listener, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("listen by QUIC: %w", err)
	}
	socket, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, fmt.Errorf("listen by QUIC: %w", err)
	}
	o, l := configOf(handshake), &Listener{transport: &quic.Transport{Conn: socket}}
	o.GetConfigForClient = func(*quic.ClientInfo) (*quic.Config, error) {
		if !admit() {
			return nil, errors.New("too many at once")
		}
		return configOf(handshake), nil
	}
	if l.listener, err = l.transport.Listen(withProtocol(config), o); err != nil {
		return nil, errors.Join(fmt.Errorf("listen by QUIC: %w", err), socket.Close())
	}
	return l, nil
}

// Port returns the port that it listens on.
func (l *Listener) Port() int { return l.transport.Conn.LocalAddr().(*net.UDPAddr).Port }

// Close ends the listener and its connections.
func (l *Listener) Close() error {
	return errors.Join(l.listener.Close(), l.transport.Close(), l.transport.Conn.Close())
}

// Accept waits for a connection whose handshake is done, and that has not said yet who
// is there: Welcome reads that.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	conn, err := l.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{quic: conn, limit: link.DefaultLimit, bytes: &link.Bytes{}}, nil
}

// Welcome reads who is there and asks whether that is let in; the peer is told why not.
// It closes a connection that is not.
func (c *Conn) Welcome(ctx context.Context, allow func(http.Header, *tls.ConnectionState) error) (err error) {
	defer func() {
		if err != nil {
			_ = c.Close() // it never fails
		}
	}()
	if c.stream, err = c.quic.AcceptStream(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	raw, err := c.readMessage(nil, maxHeader)
	if err != nil {
		return err
	}
	var header http.Header
	if err := json.Unmarshal(raw, &header); err != nil {
		return fmt.Errorf("%w: %w", link.ErrProtocol, err)
	}
	state := c.quic.ConnectionState().TLS
	if why := allow(header, &state); why != nil {
		_ = c.Send([]byte(why.Error())) // whoever is refused may be gone
		_ = c.stream.Close()            // what was sent goes out before the end
		select {
		case <-c.quic.Context().Done(): // the peer has read it and left
		case <-ctx.Done():
		}
		return why
	}
	return c.Send(nil)
}
