package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// pair is a connection of a client and the one to the server that goes with it.
type pair struct {
	relay *Relay
	up    *line
	down  *line
	done  chan struct{} // closed by end
	// cancel ends connect.
	cancel context.CancelFunc

	mu         sync.Mutex
	raw        []*net.TCPConn // the client's, then the server's
	ended      bool
	handedOver int  // directions that have handed over all they will
	broken     bool // one of them could not
	// client and server are where bytes are read and written, raw or in TLS.
	client, server stream
}

func newPair(r *Relay, client *net.TCPConn, number uint64) *pair {
	p := &pair{relay: r, raw: []*net.TCPConn{client}, client: client, done: make(chan struct{})}
	line := func(up bool, w *way, stream uint64) *line {
		return &line{
			relay: r, way: w, up: up, done: p.done,
			jitter: rand.New(rand.NewPCG(r.options.Seed, 2*number+stream)),
			data:   make(chan struct{}, 1), space: make(chan struct{}, 1),
		}
	}
	p.up, p.down = line(true, &r.up, 0), line(false, &r.down, 1)
	return p
}

// connect connects to the server and shakes hands where TLS is opened. The
// round trips that this would cost are added to the first bytes' way.
func (p *pair) connect(ctx context.Context) error {
	begin := p.relay.options.Clock.Now()
	trips := time.Duration(1)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.relay.options.To)
	if err != nil {
		return err
	}
	if !p.join(conn.(*net.TCPConn)) {
		return errEnded
	}
	var seen calls = &wholeConnection{}
	if o := p.relay.options.TLS; o != nil {
		trips = 2
		if p.client, p.server, seen, err = o.open(ctx, p.raw[0], p.raw[1]); err != nil {
			return err
		}
	}
	p.up.calls, p.down.calls = seen, seen
	p.up.begin = begin.Add(trips * p.relay.Shape().RoundTrip)
	return nil
}

// join adds the server's side, unless the pair has ended meanwhile.
func (p *pair) join(server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		_ = server.Close()
		return false
	}
	p.raw, p.server = append(p.raw, server), server
	return true
}

// run passes bytes until both directions have ended.
func (p *pair) run() {
	var wait sync.WaitGroup
	for _, way := range []struct {
		line     *line
		from, to stream
	}{{p.up, p.client, p.server}, {p.down, p.server, p.client}} {
		wait.Go(func() { _ = way.line.read(way.from, way.to) }) // its error: the pair has ended
		wait.Go(func() { p.handedOverAll(way.line.write(way.to)) })
	}
	wait.Wait()
	p.end(false)
}

// handedOverAll notes that a direction has handed over all it will. When one
// could not, since its receiver is gone, the other still hands over what was
// sent before; then the pair ends.
func (p *pair) handedOverAll(err error) {
	p.mu.Lock()
	p.handedOver++
	p.broken = p.broken || err != nil
	over := p.broken && (p.handedOver == 2 || errors.Is(err, errReset))
	p.mu.Unlock()
	if over {
		p.end(true)
	}
}

// end closes both sides; with reset their peers see a reset.
func (p *pair) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	p.cancel()
	for _, l := range []*line{p.up, p.down} {
		l.alarm.stop()
	}
	for _, c := range p.raw {
		if reset {
			_ = c.SetLinger(0) // then closing sends a reset
		}
		_ = c.Close()
	}
}
