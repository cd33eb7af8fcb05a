package msg

import (
	"context"

	"github.com/goverbs/goverbs/uverbs"
)

// Buffer is registered memory to send from without a copy. [Conn.Alloc] lends it;
// [Conn.SendBuffer] takes it back, and so does Free. A buffer that was neither sent nor
// freed is one that the connection's other senders lack.
type Buffer struct {
	c      *Conn
	slot   int // of the connection's small buffers, or
	class  int // of the large ones
	mem    memory
	all    []byte // with room for the header, if small
	data   []byte // what was asked for
	lent   bool
	cookie uint64        // of the RTS that lends it to the peer
	sge    [1]uverbs.SGE // of a small one
	wr     [1]uverbs.SendWR
	msg    Message // that a large buffer was received into
}

const noSlot = -1

// Bytes is the memory, as long as was asked for. It is not cleared.
func (b *Buffer) Bytes() []byte { return b.data }

// Free gives the buffer back unsent. It does nothing to a buffer that was sent.
func (b *Buffer) Free() {
	if b.lent {
		b.c.recycle(b)
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
		if err := c.expectFINs(); err != nil {
			return nil, err
		}
		b, err := c.heap.large(n)
		if err == nil {
			b.data = b.all[:n]
		}
		return b, err
	}
	select {
	case b := <-c.small:
		b.data = b.all[frameSize:][:n]
		return b, nil
	default:
	}
	select {
	case b := <-c.small:
		b.data = b.all[frameSize:][:n]
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.down:
		return nil, c.downCause()
	}
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
