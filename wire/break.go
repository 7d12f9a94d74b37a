package wire

// Break breaks all connections at once, as a network that fails does: requests
// on their way end with ErrLost, watches too, and the next ones dial anew.
func (c *Client) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.all {
		k.broken(ErrLost)
	}
}
