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

// arm arms the receive queue.
func (c *Conn) arm() {
	if err := c.recvCQ.Arm(false); err != nil {
		c.stream.fail(c.verbs.reset(err))
	}
}

// rang is called when an event was read. The send queue is not armed then, even if it was armed again before
// its event was read: some devices ignore that.
func (c *Conn) rang(cq *uverbs.CQ) {
	if cq == c.sendCQ {
		c.armed = armedForNone
	}
}
