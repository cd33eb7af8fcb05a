package rsocket

// watch arms the send queue if sends are outstanding, and handles sends that have already
// completed.
func (c *Conn) watch() {
	c.sends.Watch(c.stream.sent > 0, c.stream.short || c.closed)
	c.progress()
}

// arm arms the receive queue.
func (c *Conn) arm() {
	if err := c.recvCQ.Arm(false); err != nil {
		c.stream.fail(c.verbs.reset(err))
	}
}
