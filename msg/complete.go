package msg

import "github.com/goverbs/goverbs/uverbs"

// complete takes a completion of the connection's. It never waits.
func (c *Conn) complete(wc *uverbs.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outstanding--
	if wc.Status != uverbs.StatusSuccess {
		c.failWith(wc)
	}
	switch w := wrid(wc.WRID); w.kind() {
	case kindRecv:
		c.completeReceive(w.slot(), wc)
	case kindData:
		c.recycle(c.buffers[w.slot()])
	case kindControl:
		c.controls--
		c.room.raise()
	case kindRead:
		if wc.Status == uverbs.StatusSuccess {
			c.read()
		}
	case kindOp:
		c.completeOp(w, wc)
	}
	c.flush()
	c.endIfIdle()
}

// completeReceive takes a frame, also one that came before the connection failed.
func (c *Conn) completeReceive(slot int, wc *uverbs.WC) {
	if wc.Status != uverbs.StatusSuccess {
		return
	}
	if err := c.received(slot, int(wc.ByteLen)); err != nil {
		c.fail(err)
	}
	c.room.raise()
	c.wake()
}
