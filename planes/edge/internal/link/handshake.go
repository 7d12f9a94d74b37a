package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultLimit is how many bytes a message may have. KubeEdge has no limit.
const DefaultLimit = 8 << 20

// ErrRefused says that the other end did not open a websocket.
var ErrRefused = errors.New("websocket refused")

// switching is the connection during the handshake. It never reads beyond a TLS
// record, so that nothing of what follows the handshake is left in crypto/tls, and
// goes over to the socket where crypto/tls stays.
type switching struct {
	*net.TCPConn
	after    *socket
	head     [recordHeader]byte
	have     int // of head
	left     int // of the record's body
	complete bool
}

func (s *switching) Read(b []byte) (int, error) {
	switch {
	case s.after != nil:
		return s.after.Read(b)
	case s.complete || len(b) == 0:
		return s.TCPConn.Read(b)
	case s.left == 0:
		n, err := s.TCPConn.Read(b[:min(len(b), recordHeader-s.have)])
		s.have += copy(s.head[s.have:], b[:n])
		if s.have == recordHeader {
			s.have, s.left = 0, int(s.head[3])<<8|int(s.head[4])
		}
		return n, err
	}
	n, err := s.TCPConn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *switching) Write(b []byte) (int, error) {
	if s.after != nil {
		return s.after.Write(b)
	}
	return s.TCPConn.Write(b)
}

func (s *switching) Close() error {
	if s.after != nil {
		s.after.close()
		return nil
	}
	return s.TCPConn.Close()
}

// secrets takes the traffic secrets that crypto/tls writes for debuggers.
type secrets struct{ client, server []byte }

func (s *secrets) Write(line []byte) (int, error) {
	f := strings.Fields(string(line))
	if len(f) != 3 {
		return len(line), nil
	}
	secret, err := hex.DecodeString(f[2])
	if err != nil {
		return 0, err
	}
	switch f[0] {
	case "CLIENT_TRAFFIC_SECRET_0":
		s.client = secret
	case "SERVER_TRAFFIC_SECRET_0":
		s.server = secret
	}
	return len(line), nil
}

// Options are the same for many connections.
type Options struct {
	TLS    *tls.Config // nil: plain
	Limit  int         // bytes of a message
	Source net.IP      // dials come from there; nil: as the kernel chooses
	Crypto bool        // crypto/tls stays on, as everybody else has it
	Bytes  *Bytes      // counts what goes over open websockets, TLS included; nil: nobody asks
}

// Dial opens a websocket: host:port, path, headers. The context bounds it.
func Dial(ctx context.Context, address, path string, header http.Header, o Options) (*Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return lateBind(c) }}
	if o.Source != nil {
		d.LocalAddr = &net.TCPAddr{IP: o.Source}
	}
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &switching{TCPConn: raw.(*net.TCPConn), complete: o.Crypto}
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	t, err := o.handshakeTLS(ctx, s, address)
	var early []byte
	if err == nil {
		early, err = requestUpgrade(t.stream, address, path, header)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return t.newRestingConn(s, early, true, o)
}

// lateBind lets the kernel choose a port when it knows the destination: a port
// that is bound before is used up for all destinations.
func lateBind(c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(err, set)
}

// Accept opens a websocket that a peer asks for. allow sees the request and may
// refuse it. It closes the connection where it fails.
func Accept(ctx context.Context, raw *net.TCPConn, o Options, allow func(*http.Request, *tls.ConnectionState) error) (*Conn, error) {
	s := &switching{TCPConn: raw, complete: o.Crypto}
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	t, err := o.handshakeTLS(ctx, s, "")
	var early []byte
	if err == nil {
		early, err = answerUpgrade(t.stream, t.state, allow)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return t.newRestingConn(s, early, false, o)
}

// session is a connection between its handshake and its rest.
type session struct {
	stream  io.ReadWriter // what the websocket is opened over
	state   *tls.ConnectionState
	crypto  *tls.Conn
	records *records
}

// handshakeTLS makes TLS with a peer: a hub at an address, or with an empty one an edge.
func (o Options) handshakeTLS(ctx context.Context, s *switching, address string) (*session, error) {
	if o.TLS == nil {
		s.complete = true
		return &session{stream: s}, nil
	}
	client := address != ""
	config, taken := o.TLS.Clone(), &secrets{}
	config.KeyLogWriter = taken
	// A ticket would be the first record under the secrets that are taken over.
	config.SessionTicketsDisabled = config.SessionTicketsDisabled || !o.Crypto
	c := tls.Server(s, config)
	if client {
		if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
			config.ServerName = host
		}
		c = tls.Client(s, config)
	}
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := c.ConnectionState()
	t := &session{stream: c, state: &state, crypto: c}
	if o.Crypto || state.Version != tls.VersionTLS13 || state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 || taken.client == nil {
		s.complete = true
		return t, nil
	}
	in, err := newTraffic(taken.server)
	out, err2 := newTraffic(taken.client)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	t.records, t.crypto = &records{in: in, out: out}, nil
	if !client {
		t.records.in, t.records.out = out, in
	}
	t.stream = &recordStream{records: t.records, conn: s.TCPConn}
	return t, nil
}

// recordStream is the stream that the websocket is opened over, where TLS is ours.
type recordStream struct {
	records *records
	conn    net.Conn
	cipher  []byte
	plain   []byte
}

func (r *recordStream) Read(b []byte) (int, error) {
	for len(r.plain) == 0 {
		chunk := make([]byte, 4<<10)
		n, err := r.conn.Read(chunk)
		if err != nil {
			return 0, err
		}
		rest, update, err := r.records.openRecords(append(r.cipher, chunk[:n]...), func(plain []byte) error {
			r.plain = append(r.plain, plain...)
			return nil
		})
		if err != nil {
			return 0, err
		}
		r.cipher = append([]byte(nil), rest...)
		if update {
			out, err := r.records.appendKeyUpdate(nil)
			if err == nil {
				_, err = r.conn.Write(out)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	n := copy(b, r.plain)
	r.plain = r.plain[n:]
	return n, nil
}

func (r *recordStream) Write(b []byte) (int, error) {
	out, err := r.records.out.sealRecords(nil, b, typeData)
	if err == nil {
		_, err = r.conn.Write(out)
	}
	return len(b), err
}

// newRestingConn makes the connection one that rests. early is what the peer sent behind the
// request or answer that opened the websocket.
func (t *session) newRestingConn(s *switching, early []byte, client bool, o Options) (*Conn, error) {
	if err := s.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	fd, err := detachSocket(s.TCPConn)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		socket: &socket{fd: fd}, tls: t.records, crypto: t.crypto, in: assembler{limit: cmp.Or(o.Limit, DefaultLimit), client: client}, bytes: o.Bytes,
	}
	if c.bytes == nil {
		c.bytes = &Bytes{}
	}
	if r, ok := t.stream.(*recordStream); ok {
		early = append(early, r.plain...)
		if len(r.cipher) > 0 {
			c.cipher = r.cipher
		}
	}
	if len(early) > 0 {
		c.early = early
	}
	if t.crypto != nil {
		s.after = c.socket
	}
	return c, nil
}
