package msg

import (
	"context"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// Buffer is registered memory to send from without a copy. [Conn.Alloc] lends it;
// [Conn.SendBuffer] takes it back, and so does Free. A buffer that was neither sent nor
// freed is one that the connection's other senders lack.
type Buffer struct {
	c      *Conn
	slot   int // of the connection's small buffers, or noSlot
	mem    memory
	all    []byte // with room for the header, if small
	data   []byte // what was asked for
	lent   bool
	before *Buffer      // a quiet message's, sent before this one
	cookie uint64       // of the RTS that lends it to the peer
	sge    [1]verbs.SGE // of a small one
	wr     [1]verbs.SendWR
	msg    Message // that a large buffer was received into

	// Of a large buffer. The account's lock guards what follows.
	heap         *heap
	received     bool    // its memory is reserved
	older, newer *Buffer // of the free ones
}

const noSlot = -1

// Bytes is the memory, as long as was asked for. It is not cleared.
func (b *Buffer) Bytes() []byte { return b.data }

// Free gives the buffer back unsent. It does nothing to a buffer that was sent.
func (b *Buffer) Free() {
	if b != nil && b.lent {
		b.c.recycle(b)
		b.c.poller.turn.Wake()
	}
}

// Alloc lends a buffer of n bytes. It waits for one that is in use until ctx is done.
func (c *Conn) Alloc(ctx context.Context, n int) (*Buffer, error) {
	b, err := c.alloc(ctx, n)
	if err != nil {
		return nil, failed("allocate", err)
	}
	b.c, b.lent = c, true
	return b, nil
}

func (c *Conn) alloc(ctx context.Context, n int) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case n < 0 || uint64(n) > c.peer.longest:
		return nil, ErrTooLong
	case n > c.eager:
		if isClosed(c.down) {
			return nil, c.downCause()
		}
		if err := c.expectFINs(); err != nil {
			return nil, err
		}
		b, err := c.heap.toSend(n)
		if err == nil {
			b.data = b.all[:n]
		}
		return b, err
	}
	b, err := c.takeSmall(ctx)
	if err != nil {
		return nil, c.explainEnd(err)
	}
	b.data = b.all[frameSize:][:n]
	return b, nil
}

// takeSmall waits for a small buffer. Completed sends give them back, and those are not
// looked for as long as there are buffers.
func (c *Conn) takeSmall(ctx context.Context) (*Buffer, error) {
	select {
	case b := <-c.small:
		return b, nil
	default:
	}
	c.hungry(1)
	defer c.hungry(-1)
	c.poller.reap()
	return wait.Await(ctx, &c.poller.turn, c.poller, c.small, c.down)
}

func (c *Conn) hungry(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want(n)
}

// recycle has b used again. It may be called with the connection held.
func (c *Conn) recycle(b *Buffer) {
	b.lent, b.data = false, nil
	if b.slot == noSlot {
		c.heap.put(b)
		return
	}
	c.small <- b // there is room for all
}
