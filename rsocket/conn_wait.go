package rsocket

import (
	"errors"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// arming is the set of completions of the send queue that raise an event.
type arming uint8

const (
	armedForNone arming = iota
	armedForFailures
	armedForAll
)

// watch arms the send queue if sends are outstanding, and handles those that have completed
// before. A failed send may be the only sign that the connection has ended. Those that succeed
// matter only to a call that waits for room in the queue or the buffer, or for delivery. Other
// calls would be woken for nothing.
func (c *Conn) watch() {
	if want := c.wanted(); c.armed < want {
		switch err := c.sendCQ.Arm(want == armedForFailures); {
		case err == nil:
			c.armed = want
		case want == armedForFailures && errors.Is(err, verbs.ErrNotSupported):
			c.noFailures = true
		}
	}
	c.progress()
}

// wanted returns the completions of sends that some call may wait for. A failed send raises
// an event even if only solicited events were asked for. siw refuses to be asked for those. There,
// and on rxe, which ignores failures, the receives that are flushed with the send raise one.
func (c *Conn) wanted() arming {
	switch {
	case c.stream.sent == 0:
		return armedForNone
	case c.stream.short || c.closed:
		return armedForAll
	case c.noFailures:
		return armedForNone
	}
	return armedForFailures
}

// park waits until c.changes may differ from seen, or the deadline of the side has passed.
// The call that holds the turn waits for events and wakes the others.
func (c *Conn) park(s *side, seen uint64) {
	expiry := s.deadline.Expiry()
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
		c.armed = armedForNone
	}
}

// tend calls watch if a call waits for events, so that the caller's sends wake it. It
// returns the number of changes before that, because the caller has not seen later ones.
func (c *Conn) tend() (seen uint64) {
	if seen = c.changes; c.waiting {
		c.watch()
	}
	return seen
}

// hasChanged arms the queues for a call that is about to wait for events, and then reports
// whether c.changes differs from seen.
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
