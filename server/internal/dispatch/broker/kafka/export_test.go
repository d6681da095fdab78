package kafka

// Begun is how many produce requests have begun to leave.
func (c *Client) Begun() uint64 { return c.wire.now().begun }

// Reached reports whether a broker has answered since something went wrong.
func (c *Client) Reached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reached
}
