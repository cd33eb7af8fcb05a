package msg

import "github.com/goverbs/goverbs/verbs"

// complete takes a completion of the connection's. It never waits.
func (c *Conn) complete(wc *verbs.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := wrid(wc.WRID)
	if w.kind() != kindQuiet {
		c.outstanding--
	}
	if wc.Status == verbs.StatusSuccess {
		c.watch.heard = true
	} else {
		c.failWith(wc)
	}
	switch w.kind() {
	case kindRecv:
		c.completeReceive(w.slot(), wc)
	case kindData:
		for b := c.buffers[w.slot()]; b != nil; {
			before := b.before
			c.recycle(b)
			b = before
		}
	case kindControl:
		c.controls--
		c.want(-1)
		c.room.raise()
	case kindRead:
		c.want(-1)
		if wc.Status == verbs.StatusSuccess {
			c.read()
		}
	case kindOp:
		c.completeOp(w, wc)
	case kindKeepAlive:
		c.watch.asking = false
	}
	c.flush()
	c.endIfIdle()
}

// completeReceive takes a frame, also one that came before the connection failed.
func (c *Conn) completeReceive(slot int, wc *verbs.WC) {
	if wc.Status != verbs.StatusSuccess {
		return
	}
	if err := c.received(slot, wc.ByteLen); err != nil {
		c.fail(err)
	}
	c.room.raise()
	c.wake()
}

// want adds n reasons to hear of completed sends as soon as they complete. c is held.
func (c *Conn) want(n int) {
	before := c.wants
	c.wants += n
	switch {
	case before <= 0 && c.wants > 0:
		c.poller.wantSends()
	case before > 0 && c.wants <= 0:
		c.poller.sends.Add(-1)
	}
}
