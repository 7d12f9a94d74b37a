package apitest

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Peer is a server that breaks the rules, or keeps them and wears its client out.
type Peer struct {
	Name   string
	answer func(s *session, id uint32)
}

// Peering is a hostile server that runs.
type Peering struct {
	Endpoint endpoint.Endpoint

	peer      Peer
	polite    bool
	open, top atomic.Int64
	total     atomic.Int64
}

// Listen listens for connections that speak HTTP/2 as the test has them do, until it ends.
// The endpoint has the certificate for it.
func Listen(t testing.TB) (net.Listener, endpoint.Endpoint) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = true
	s.StartTLS() // for its certificate
	t.Cleanup(s.Close)
	l := repotest.Must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}))(t)
	t.Cleanup(func() { _ = l.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return l, endpoint.New("https://"+l.Addr().String(), ca, endpoint.Identity{})
}

// Serve runs the server until the test ends. A polite one answers what a client
// asks first (its version, what one may do) as an API server does, and shows what
// it is to all that follows.
func (p Peer) Serve(t testing.TB, polite bool) *Peering {
	t.Helper()
	l, e := Listen(t)
	out := &Peering{Endpoint: e, peer: p, polite: polite}
	var wait sync.WaitGroup
	stop := make(chan struct{})
	wait.Go(func() { out.accept(l, &wait, stop) })
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		wait.Wait()
	})
	return out
}

// Connections returns how many there were at most at a time, and in all.
func (p *Peering) Connections() (highest, total int64) { return p.top.Load(), p.total.Load() }

func (p *Peering) accept(l net.Listener, wait *sync.WaitGroup, stop chan struct{}) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.total.Add(1)
		for n, top := p.open.Add(1), p.top.Load(); n > top && !p.top.CompareAndSwap(top, n); top = p.top.Load() {
		}
		s := &session{conn: conn, over: make(chan struct{}), left: make(chan struct{}), peer: p, framer: http2.NewFramer(conn, conn)}
		s.framer.AllowIllegalWrites = true
		s.encoder = hpack.NewEncoder(&s.block)
		ended := make(chan struct{})
		wait.Go(func() {
			s.read(wait)
			close(ended)
			p.open.Add(-1)
		})
		wait.Go(func() {
			select {
			case <-stop:
			case <-ended:
			}
			_ = conn.Close()
		})
	}
}

// session is a connection of a hostile server.
type session struct {
	conn net.Conn
	peer *Peering
	over chan struct{} // closed when the client has left
	deaf atomic.Bool   // nothing more is read until left is closed
	left chan struct{}

	leave sync.Once

	mu      sync.Mutex // of what writes
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// read reads requests until the client has left.
func (s *session) read(wait *sync.WaitGroup) {
	defer close(s.over)
	if _, err := io.ReadFull(s.conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	if !s.write(func(f *http2.Framer) error { return f.WriteSettings() }) {
		return
	}
	reader := http2.NewFramer(nil, s.conn)
	reader.SetMaxReadFrameSize(1<<24 - 1)
	reader.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			return
		}
		headers, ok := frame.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		path, id := headers.PseudoValue("path"), headers.StreamID
		if !s.peer.polite || !s.greet(path, id) {
			wait.Go(func() { s.peer.peer.answer(s, id) })
		}
		if s.deaf.Load() {
			<-s.left
			return
		}
	}
}

// greet answers what is asked first; false when it is something else.
func (s *session) greet(path string, id uint32) bool {
	switch {
	case strings.HasPrefix(path, "/version"):
		s.reply(id, "200", `{"major":"1","minor":"37","gitVersion":"`+Version+`"}`)
	case strings.HasPrefix(path, "/apis/authorization.k8s.io/"):
		s.reply(id, "201", `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":true}}`)
	default:
		return false
	}
	return true
}

// write writes frames; false when the client has left.
func (s *session) write(f func(*http2.Framer) error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.framer) == nil
}

// flood writes a frame until the client has left.
func (s *session) flood(f func(*http2.Framer) error) {
	for s.write(f) {
	}
}

// encodeLocked encodes a header block; callers hold mu.
func (s *session) encodeLocked(fields ...string) []byte {
	s.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = s.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return s.block.Bytes()
}

// headers writes a header block.
func (s *session) headers(id uint32, end bool, fields ...string) bool {
	return s.write(func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.encodeLocked(fields...), EndHeaders: true, EndStream: end})
	})
}

// reply answers a request.
func (s *session) reply(id uint32, code, body string, more ...string) {
	fields := append([]string{":status", code, "content-type", "application/json"}, more...)
	if s.headers(id, body == "", fields...) && body != "" {
		s.write(func(f *http2.Framer) error { return f.WriteData(id, true, []byte(body)) })
	}
}
