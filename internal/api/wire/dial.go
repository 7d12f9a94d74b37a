package wire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// Reserve opens connections for n requests at a time, as far as Options.Most
// allows, and waits until they are there, or refused, or ctx ends: a request
// that waits for its connection leaves late, and a server that stalls opens
// none.
func (c *Client) Reserve(ctx context.Context, n int) {
	places := min((n+defaultStreams-1)/defaultStreams, len(c.conns))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for first := true; ; first = false {
		c.mu.Lock()
		if first {
			c.dialMissingLocked(places)
		}
		busy := slices.Contains(c.dialing[:places], true)
		c.mu.Unlock()
		if !busy {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pickConnLocked returns the connection for the next request, or nil: of the first ones
// that with the fewest requests, and when these are full the first other that
// has room; callers hold mu.
func (c *Client) pickConnLocked() *conn {
	var best *conn
	for i, k := range c.conns {
		if i >= c.options.Connections && best != nil {
			break
		}
		if k == nil || k.draining || len(k.streams) >= k.maxStreams {
			continue
		}
		if best == nil || len(k.streams) < len(best.streams) {
			best = k
		}
	}
	if best != nil && len(best.streams) > 0 {
		c.dialMissingLocked(c.options.Connections) // spread out as soon as there is anything to share
	}
	return best
}

// dialMissingLocked starts a dial for each of the first places that has no
// connection; callers hold mu.
func (c *Client) dialMissingLocked(places int) {
	for i := range c.conns[:places] {
		if c.vacant(i) && !c.dialing[i] && !c.closed {
			c.dialing[i] = true
			c.wait.Add(1)
			guard.Go(func() { c.dial(i) })
		}
	}
}

func (c *Client) vacant(i int) bool { return c.conns[i] == nil || c.conns[i].draining }

// dialMoreLocked starts the dials that requests in the queue give reason to: those of
// the first places, and one more at a time when these are full; callers hold mu.
func (c *Client) dialMoreLocked() {
	c.dialMissingLocked(c.options.Connections)
	if !slices.Contains(c.dialing, true) {
		if i := slices.IndexFunc(c.conns, func(k *conn) bool { return k == nil || k.draining }); i >= 0 {
			c.dialMissingLocked(i + 1)
		}
	}
}

// awaitTurn pauses before a dial where connections end without an answer, as those
// of a server do that says GOAWAY to each: longer each time, but for the first.
func (c *Client) awaitTurn(place int) {
	c.mu.Lock()
	futile := c.futile[place]
	c.mu.Unlock()
	if futile > 1 {
		_ = clock.Sleep(c.ctx, Backoff{First: redialAfter, Last: lastRedial}.Pause(futile-2)) // the dial looks at ctx
	}
}

func (c *Client) dial(place int) {
	defer c.wait.Done()
	c.awaitTurn(place)
	k, err := c.connect(c.ctx, place)
	c.mu.Lock()
	if err == nil && c.closed {
		err = ErrClosed
		_ = k.net.Close()
	}
	if err == nil {
		c.dialing[place] = false
		c.futile[place]++
		c.conns[place] = k
		c.startLoopsLocked(k)
		c.drainQueueLocked()
		if c.queue.len() > 0 {
			c.dialMoreLocked()
		}
		c.mu.Unlock()
		return
	}
	var orphans []*stream
	if !c.anyLive() {
		orphans = c.queue.takeAll()
	}
	c.mu.Unlock()
	for _, s := range orphans {
		c.finish(s, fmt.Errorf("%w: %w", ErrNotSent, err))
	}
	c.Flush()
	// Hold the place for a moment: a server that refuses is asked again by the
	// next request, not in a spin.
	select {
	case <-time.After(redialAfter):
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	c.dialing[place] = false
	if c.queue.len() > 0 {
		c.dialMoreLocked()
	}
	c.mu.Unlock()
}

// startLoopsLocked starts a connection's loops; callers hold mu.
func (c *Client) startLoopsLocked(k *conn) {
	c.all[k] = struct{}{}
	c.wait.Add(2)
	guard.Go(k.readLoop)
	guard.Go(k.writeLoop)
}

func (c *Client) anyLive() bool {
	for _, k := range c.conns {
		if k != nil && !k.draining {
			return true
		}
	}
	return false
}

// drainQueueLocked moves queued requests to connections with room; callers hold mu.
func (c *Client) drainQueueLocked() {
	for c.queue.len() > 0 {
		k := c.pickConnLocked()
		if k == nil {
			return
		}
		k.openStreamLocked(c.queue.pop())
		k.wake()
	}
}

// removeConnLocked takes a broken connection out of its place; callers hold mu.
func (c *Client) removeConnLocked(k *conn) {
	delete(c.all, k)
	for i := range c.conns {
		if c.conns[i] == k {
			c.conns[i] = nil
		}
	}
	if c.queue.len() > 0 {
		c.dialMoreLocked()
	}
}
