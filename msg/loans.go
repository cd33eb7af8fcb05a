package msg

// loans are the large messages that the peer has been told of and has not read.
type loans struct {
	buffers [rendezvous]*Buffer
	count   int
}

func (l *loans) room() bool { return l.count < rendezvous }

func (l *loans) add(b *Buffer) {
	for i := range l.buffers {
		if l.buffers[i] == nil {
			l.buffers[i] = b
			l.count++
			return
		}
	}
}

// remove finds the buffer by its cookie; nil: there is none.
func (l *loans) remove(cookie uint64) *Buffer {
	for i, b := range l.buffers {
		if b != nil && b.cookie == cookie {
			l.buffers[i] = nil
			l.count--
			return b
		}
	}
	return nil
}

// returned takes back what the peer has read.
func (c *Conn) returned(cookie uint64) error {
	b := c.loans.remove(cookie)
	if b == nil {
		return violation("FIN with cookie %d", cookie)
	}
	c.recycle(b)
	return nil
}
