package wire

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

const (
	// renewEvery is how often credentials are looked at: those that have not
	// expired cost next to nothing, and one that has costs refused requests.
	renewEvery = time.Second
	// renewAfter is the least time between two renewals that refusals ask for.
	renewAfter = time.Second
)

// renewLoop keeps credentials that expire fresh. A failed renewal keeps the old
// ones: the server's 401 says it better.
func (c *Client) renewLoop() {
	defer c.wait.Done()
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			c.authorize()
		case <-c.renew:
			c.mu.Lock()
			used := c.auth
			c.mu.Unlock()
			c.refused(used)
			if clock.Sleep(c.ctx, renewAfter) != nil {
				return
			}
		}
	}
}

// authorize takes the credentials as they are now.
func (c *Client) authorize() {
	if auth, err := c.endpoint.Authorization(); err == nil {
		c.mu.Lock()
		c.auth = auth
		c.mu.Unlock()
	}
}

// refused has credentials made anew that the server refused. A client certificate
// is shown when a connection begins, so those that stand make room for others.
func (c *Client) refused(used string) {
	if c.endpoint.Renew(used) != nil {
		return
	}
	c.authorize()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.auth != "" {
		return
	}
	for _, k := range c.conns {
		if k == nil || k.draining {
			continue
		}
		if k.draining = true; len(k.streams) == 0 {
			k.breakLocked(ErrClosed)
		}
	}
}

// renewSoon says that the server refused the credentials.
func (c *Client) renewSoon() {
	select {
	case c.renew <- struct{}{}:
	default:
	}
}
