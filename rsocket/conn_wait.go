package rsocket

import "github.com/goverbs/goverbs/uverbs"

// watch has completions of sends raise an event, and looks once more for those that came
// before. A send that fails is how a connection ends of which the kernel does not hear.
func (c *Conn) watch() {
	if c.stream.sent > 0 && !c.armed {
		c.armed = c.sendCQ.Arm(false) == nil
	}
	c.progress()
}

// park waits until something may have changed since the caller saw changes, or the
// side's time is over. One call at a time holds the turn: it waits for events, and wakes
// the others.
func (c *Conn) park(s *side, seen uint64) {
	expiry := s.deadline.expiry()
	if c.turn.Acquire(expiry, s.wake) != nil {
		return
	}
	defer c.turn.Release()
	var rang *uverbs.CQ
	if !c.hasChanged(seen) {
		rang, _ = c.channel.Get(expiry) // the caller finds out what happened
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	if rang == c.sendCQ {
		// It is not armed, even if it was armed again before its event was read: some
		// devices ignore that.
		c.armed = false
	}
}

// tend has the call that waits for events, if there is one, hear of what was posted. It
// returns the number of changes before that, because what it finds is news.
func (c *Conn) tend() (seen uint64) {
	if seen = c.changes; c.waiting {
		c.watch()
	}
	return seen
}

// hasChanged arms the queues, for a call that is about to wait for events, and looks once
// more.
func (c *Conn) hasChanged(seen uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != seen {
		return true
	}
	c.waiting = true
	if err := c.recvCQ.Arm(false); err != nil {
		c.stream.fail(c.verbs.reset(err))
	}
	c.watch()
	return c.changes != seen
}
