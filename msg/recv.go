package msg

import (
	"context"
	"io"
	"net"

	"github.com/goverbs/goverbs/uverbs"
)

// Recv waits for the next message and lends it until its Release. After the peer has
// closed in order, and all its messages have been received, the error is io.EOF itself.
// A call that ctx ends takes no message: the next one gets it.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	m, err := c.recv(ctx)
	if err == io.EOF {
		return nil, err
	}
	return m, failed("receive", err)
}

func (c *Conn) recv(ctx context.Context) (*Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.recvTurn.take(ctx, c.ending.shut); err != nil {
		return nil, c.explainEnd(err)
	}
	defer c.recvTurn.give()
	for {
		m, err := c.tryRecv()
		if err != errAgain {
			return m, err
		}
		if _, err := await(ctx, c.pump, c.arrived, nil); err != nil {
			return nil, err
		}
	}
}

// tryRecv takes the oldest message, or has it come.
func (c *Conn) tryRecv() (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tryRecvLocked()
}

func (c *Conn) tryRecvLocked() (*Message, error) {
	if c.ending.isShut {
		return nil, net.ErrClosed
	}
	if c.waiting.len() == 0 {
		switch {
		case c.ending.peerClosed:
			return nil, io.EOF
		case isClosed(c.over):
			return nil, c.ending.first
		}
		return nil, errAgain
	}
	a := c.waiting.head()
	if a.large {
		return c.tryFetch(a)
	}
	m := &c.receives[a.slot].msg
	m.c, m.slot, m.data = c, a.slot, a.payload
	c.waiting.pop()
	return m, nil
}

// fetch is the reading of the oldest message, which is a large one. It goes on when the
// call of Recv ends that began it.
type fetch struct {
	into  *Buffer // nil: not begun
	at    rts
	slot  int // of the RTS
	done  int // bytes
	under int // bytes of the READ under way
	op    [1]uverbs.SendWR
	sge   [1]uverbs.SGE
}

// piece is how much one READ reads: devices have a longest message.
const piece = 1 << 20

// tryFetch begins to read a, or returns it when it has been read.
func (c *Conn) tryFetch(a *arrival) (*Message, error) {
	f := &c.fetch
	switch {
	case f.into == nil && c.ending.failing:
		return nil, c.ending.first
	case f.into == nil:
		b, err := c.heap.large(int(a.at.length))
		if err != nil {
			return nil, err
		}
		f.into, f.at, f.slot, f.done = b, a.at, a.slot, 0
		c.readMore()
		return nil, errAgain
	case uint64(f.done) < f.at.length && isClosed(c.over):
		return nil, c.ending.first
	case uint64(f.done) < f.at.length:
		return nil, errAgain
	}
	b := f.into
	f.into = nil
	b.c = c
	b.msg = Message{c: c, large: b, data: b.all[:f.at.length]}
	c.waiting.pop()
	return &b.msg, nil
}

// readMore posts a READ of the next piece.
func (c *Conn) readMore() {
	f := &c.fetch
	f.under = int(min(f.at.length-uint64(f.done), piece))
	f.sge[0] = f.into.mem.SGE(f.done, f.under)
	f.op[0] = uverbs.SendWR{Opcode: uverbs.OpRDMARead, Flags: uverbs.SendSignaled, SGL: f.sge[:],
		WRID: uint64(newWRID(c.id, kindRead, 0, 0)), RemoteAddr: f.at.addr + uint64(f.done), RKey: f.at.rkey}
	c.want(1)
	_ = c.post(f.op[:])
}

// read takes the completion of a READ. When it was the last one, the peer has its memory
// back, and the RTS has been dealt with.
func (c *Conn) read() {
	f := &c.fetch
	f.done += f.under
	if uint64(f.done) < f.at.length {
		if !c.ending.failing {
			c.readMore()
		}
		return
	}
	c.fins.push(c.waiting.head().cookie)
	c.freeReceive(f.slot)
	c.wake()
}
