package wire

// Break breaks all connections at once, as a network that fails does: requests
// on their way end with ErrLost, watches too, and the next ones dial anew.
func (c *Client) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.all {
		k.breakLocked(ErrLost)
	}
}

// CloseHeld closes those watches, held or about to be, that which says yes to.
func (c *Client) CloseHeld(which func(*Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := func(s *stream) {
		if s.request.Hold > 0 && which(s.request) {
			s.deadline = 0 // the next sweep takes it
		}
	}
	for k := range c.all {
		for _, s := range k.streams {
			end(s)
		}
	}
	for s := range c.slow {
		end(s)
	}
	for _, s := range c.queue.items[c.queue.head:] {
		end(s)
	}
	c.wakeSweeperLocked(c.options.Clock.Now())
}
