package rsocket

import "github.com/goverbs/goverbs/verbs"

// progress takes what has completed and does what that calls for. It is called with the
// lock held.
func (c *Conn) progress() {
	ended := c.hasEnded() // before the queues are emptied, which hold what came before
	n := c.receive()
	n += c.reclaim()
	if ended && n == 0 {
		c.stream.fail(c.verbs.reset(nil))
	}
	c.stream.settle()
	if c.stream.failed != nil && !c.torn {
		c.torn = true
		n++
		_ = c.rc.Disconnect() // may be over already
	}
	if n > 0 {
		c.changed()
	}
}

// changed wakes the calls that wait.
func (c *Conn) changed() {
	c.changes++
	for _, s := range [...]*side{&c.reader, &c.writer, &c.closer} {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.rc.Done():
		return true
	default:
		return false
	}
}

// receive takes the words that have arrived and posts the receives again. It returns how
// many there were. A call takes no more than about as many as there are receives: a peer that
// sends words faster than they are polled must not keep the lock. Callers look again when
// there was anything.
func (c *Conn) receive() (total int) {
	for total < c.verbs.recvs {
		n, err := c.recvCQ.Poll(c.wcs[:])
		if err != nil {
			c.stream.fail(c.verbs.reset(err))
			return total
		}
		again := 0
		for i := range c.wcs[:n] {
			wc := &c.wcs[i]
			if wc.Status != verbs.StatusSuccess {
				continue // the end, of which the Conn tells
			}
			w, err := c.verbs.received(wc)
			if err != nil {
				c.stream.violate(err)
				continue
			}
			c.stream.arrived(w)
			c.verbs.fill(again, wc.WRID)
			again++
		}
		if err := c.verbs.postRecvs(again); err != nil {
			c.stream.fail(c.verbs.reset(err))
		}
		if total += n; n < len(c.wcs) {
			break
		}
	}
	return total
}

// reclaim takes back what completed messages took up.
func (c *Conn) reclaim() (total int) {
	for {
		n, err := c.sendCQ.Poll(c.wcs[:])
		if err != nil {
			c.stream.fail(c.verbs.reset(err))
			return total
		}
		var failed error
		for i := range c.wcs[:n] {
			wc := &c.wcs[i]
			if err := wc.Err(); err != nil && failed == nil {
				failed = err
			}
			if wc.WRID != 0 {
				c.stream.completed(refund(wc.WRID))
			}
		}
		if n > 0 {
			c.armed = false
		}
		left := n == len(c.wcs)
		if total += n; failed != nil {
			// The peer may have said before that it leaves.
			total += c.receive()
			c.stream.fail(c.verbs.reset(failed))
		}
		if !left {
			return total
		}
	}
}
