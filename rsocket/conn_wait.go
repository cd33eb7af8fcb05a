package rsocket

// watch has completions of sends raise an event, and looks once more for those that came
// before. A send that fails is how a connection ends of which the kernel does not hear.
func (c *Conn) watch() {
	if c.stream.sent > 0 && !c.armed {
		c.armed = c.sendCQ.Arm(false) == nil
	}
	c.progress()
}

// park waits until something may have changed since the caller saw changes, or the
// side's time is over. One call at a time waits for events, and wakes the others.
func (c *Conn) park(s *side, seen uint64) {
	if c.hasChanged(seen, false) {
		return
	}
	expiry := s.deadline.moment()
	select {
	case <-expiry.Done():
		return
	case <-s.wake:
		return
	case <-c.turn:
	}
	if !c.hasChanged(seen, true) {
		_, _ = c.channel.Get(expiry) // the caller looks at what happened
	}
	c.mu.Lock()
	c.waiting = false
	c.mu.Unlock()
	c.turn <- struct{}{}
}

// hasChanged arms the queues and looks once more. The call that is about to wait for
// events does so for receives too.
func (c *Conn) hasChanged(seen uint64, wait bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != seen {
		return true
	}
	if wait {
		c.waiting = true
		if err := c.recvCQ.Arm(false); err != nil {
			c.stream.fail(err)
		}
	}
	c.watch()
	return c.changes != seen
}
