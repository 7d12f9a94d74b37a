package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// connection is one of a client and the one to the server that goes with it.
type connection struct {
	proxy *Proxy
	up    *pipe
	down  *pipe
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

func newConnection(p *Proxy, client *net.TCPConn, number uint64) *connection {
	c := &connection{proxy: p, raw: []*net.TCPConn{client}, client: client, done: make(chan struct{})}
	newPipe := func(up bool, d *direction, stream uint64) *pipe {
		return &pipe{
			proxy: p, direction: d, up: up, done: c.done,
			jitter: rand.New(rand.NewPCG(p.options.Seed, 2*number+stream)),
			data:   make(chan struct{}, 1), space: make(chan struct{}, 1),
		}
	}
	c.up, c.down = newPipe(true, &p.up, 0), newPipe(false, &p.down, 1)
	return c
}

// connectServer connects to the server and shakes hands where TLS is opened. The
// round trips that this would cost are added to the delay of the first bytes.
func (c *connection) connectServer(ctx context.Context) error {
	begin := c.proxy.options.Clock.Now()
	trips := time.Duration(1)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.proxy.options.Choose(c.raw[0].RemoteAddr(), c.raw[0].LocalAddr()))
	if err != nil {
		return err
	}
	if !c.addServer(conn.(*net.TCPConn)) {
		return errEnded
	}
	var seen calls = &wholeConnection{}
	if o := c.proxy.options.TLS; o != nil {
		trips = 2
		if c.client, c.server, seen, err = o.openBoth(ctx, c.raw[0], c.raw[1]); err != nil {
			return err
		}
	}
	c.up.calls, c.down.calls = seen, seen
	c.up.begin = begin.Add(trips * c.proxy.Link().RoundTrip)
	return nil
}

// addServer adds the server's side, unless the connection has ended meanwhile.
func (c *connection) addServer(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = server.Close()
		return false
	}
	c.raw, c.server = append(c.raw, server), server
	return true
}

// passBytes passes bytes until both directions have ended.
func (c *connection) passBytes() {
	var wait sync.WaitGroup
	for _, d := range []struct {
		pipe     *pipe
		from, to stream
	}{{c.up, c.client, c.server}, {c.down, c.server, c.client}} {
		wait.Go(func() { _ = d.pipe.readUntilEnd(d.from, d.to) }) // its error: the connection has ended
		wait.Go(func() { c.directionDone(d.pipe.writeUntilEnd(d.to)) })
	}
	wait.Wait()
	c.endBoth(false)
}

// directionDone notes that a direction has handed over all it will. When one
// could not, since its receiver is gone, the other still hands over what was
// sent before; then the connection ends.
func (c *connection) directionDone(err error) {
	c.mu.Lock()
	c.handedOver++
	c.broken = c.broken || err != nil
	over := c.broken && (c.handedOver == 2 || errors.Is(err, errReset))
	c.mu.Unlock()
	if over {
		c.endBoth(true)
	}
}

// endBoth closes both sides; with reset their peers see a reset.
func (c *connection) endBoth(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.done)
	c.cancel()
	for _, p := range []*pipe{c.up, c.down} {
		p.alarm.stop()
	}
	for _, raw := range c.raw {
		if reset {
			_ = raw.SetLinger(0) // then closing sends a reset
		}
		_ = raw.Close()
	}
}
