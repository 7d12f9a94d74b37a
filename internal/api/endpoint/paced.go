package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// A client for single requests, of metrics and profiles, reads what answers bring as
// fast as it comes, and of anything else so many bytes at once and so many each second.
// A server that floods it with frames that are no answer, or ends each connection without
// one, would otherwise take a core for as long as a request waits: net/http bounds an
// answer's parts, not what comes instead, nor how often it connects again.
const (
	idleBytes   = 8 << 20   // more than the windows of two streams
	idleRate    = 256 << 10 // bytes a second
	answerBytes = 64 << 10  // that an answer may bring beside its body
	dialBytes   = 64 << 10  // as which a connection counts: one that brings an answer costs nothing

	dialTimeout = 30 * time.Second // as client-go's own
	keepAlive   = 30 * time.Second // likewise
	paceEvery   = 10 * time.Millisecond
	usefulness  = 2 // bytes that each byte of a body makes good: of its frames too
)

// pacing counts what the connections of one client read that is of no answer.
type pacing struct {
	clock   clock.Clock
	connect func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	idle  float64 // bytes
	since clock.Time
}

func newPacing() *pacing {
	return &pacing{clock: clock.Start(), connect: (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext}
}

// addBytes counts bytes that were read, or makes them good, and says whether there are too
// many.
func (p *pacing) addBytes(bytes float64) (tooMany bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.idle = max(0, p.idle+bytes-now.Sub(p.since).Seconds()*idleRate)
	p.since = now
	return p.idle > idleBytes
}

// dialPaced connects, after a while where too many connections brought nothing.
func (p *pacing) dialPaced(ctx context.Context, network, address string) (net.Conn, error) {
	for wait := p.addBytes(dialBytes); wait; wait = p.addBytes(0) {
		if err := clock.Sleep(ctx, paceEvery); err != nil {
			return nil, err
		}
	}
	conn, err := p.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return pacedConn{conn, p}, nil
}

// pacedConn is a connection of such a client.
type pacedConn struct {
	net.Conn
	pace *pacing
}

// Read reads, and holds the reader up while it has read too much for nothing.
func (c pacedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for wait := c.pace.addBytes(float64(n)); wait; wait = c.pace.addBytes(0) {
		time.Sleep(paceEvery)
	}
	return n, err
}

// pacedRequests tells the pacing of answers.
type pacedRequests struct {
	http.RoundTripper
	pace *pacing
}

// RoundTrip sends a request.
func (r pacedRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.RoundTripper.RoundTrip(request)
	if err == nil {
		r.pace.addBytes(-answerBytes)
		answer.Body = pacedBody{answer.Body, r.pace}
	}
	return answer, err
}

type pacedBody struct {
	io.ReadCloser
	pace *pacing
}

func (b pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.pace.addBytes(-usefulness * float64(n))
	return n, err
}
