package msg

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/goverbs/goverbs/verbs"
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
		if err == errSupply {
			err = c.supply()
		}
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

// fetch is the reading of the oldest message, which is a large one. A READ goes on when the
// call of Recv ends that began it. Memory is got by calls of Recv only, and without the
// connection's lock, because that may take long. There is never much more of it than the peer
// has filled: a request to send is 40 bytes, which cost the peer nothing.
type fetch struct {
	begun  bool
	busy   bool // a call is getting memory
	into   *Buffer
	at     rts
	slot   int // of the RTS
	cookie uint64
	done   int       // bytes
	under  int       // bytes of the READ under way
	since  time.Time // when that was posted
	reads  uint64
	op     [1]verbs.SendWR
	sge    [1]verbs.SGE
}

const (
	// piece is how much one READ reads: devices have a longest message.
	piece = 1 << 20
	// firstPiece is how much memory a message gets at first; later growth times as much as
	// it had.
	firstPiece, growth = 64 << 10, 4
)

// errSupply means that the fetch needs memory, which the caller gets with supply.
var errSupply = errors.New("no memory yet")

// isDone reports whether the message has been read.
func (f *fetch) isDone() bool { return f.begun && uint64(f.done) == f.at.length }

// tryFetch begins to read a, or returns it when it has been read.
func (c *Conn) tryFetch(a *arrival) (*Message, error) {
	f := &c.fetch
	switch {
	case f.isDone():
		b := f.into
		f.into, f.begun = nil, false
		b.c = c
		b.msg = Message{c: c, large: b, data: b.all[:f.at.length]}
		c.waiting.pop()
		return &b.msg, nil
	case c.ending.failing && (f.under == 0 || isClosed(c.over)):
		return nil, c.ending.first
	case f.under > 0, f.busy:
		return nil, errAgain
	case !f.begun:
		f.begun, f.at, f.slot, f.cookie, f.done = true, a.at, a.slot, a.cookie, 0
	}
	f.busy = true
	return nil, errSupply
}

// supply gets memory for the fetch, and has the next piece read into it. c is not held.
func (c *Conn) supply() error {
	f := &c.fetch
	b, err := c.grow(f.into, 1<<classOf(int(f.at.length)), f.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.busy = false
	if err != nil {
		return err
	}
	if f.into = b; !c.ending.failing && !c.ending.isShut {
		c.readMore()
	}
	return errAgain
}

// grow replaces old, which is full, by a larger buffer with what has been read. The first one is for a
// message that needs size bytes in the end.
func (c *Conn) grow(old *Buffer, size, done int) (*Buffer, error) {
	h := c.heap
	if old != nil {
		b, err := h.large(min(growth*len(old.all), size))
		if err != nil {
			return nil, err
		}
		copy(b.all, old.all[:done])
		b.received = true
		_ = h.remove(old.mem) // Close does what this could not
		return b, nil
	}
	b, evicted, ok := h.account.toReceive(size)
	for _, b := range evicted {
		_ = b.heap.remove(b.mem)
	}
	if !ok {
		return nil, errAgain
	}
	if b == nil {
		var err error
		if b, err = h.large(min(firstPiece, size)); err != nil {
			h.account.giveUp(size)
			return nil, err
		}
	}
	b.received = true
	return b, nil
}

// readMore posts a READ of the next piece that there is memory for.
func (c *Conn) readMore() {
	f := &c.fetch
	f.under = min(int(f.at.length), len(f.into.all)) - f.done
	f.under, f.since = min(f.under, piece), time.Now()
	f.sge[0] = f.into.mem.SGE(f.done, f.under)
	f.op[0] = verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: f.sge[:],
		WRID: uint64(newWRID(c.id, kindRead, 0, 0)), RemoteAddr: f.at.addr + uint64(f.done), RKey: f.at.rkey}
	c.want(1)
	_ = c.post(f.op[:])
}

// read takes the completion of a READ. When it was the last one, the peer has its memory
// back, and the RTS has been dealt with.
func (c *Conn) read() {
	f := &c.fetch
	f.done += f.under
	f.under = 0
	f.reads++
	switch {
	case c.ending.isShut: // nobody will have the message
		return
	case f.isDone():
		c.fins.push(f.cookie)
		c.freeReceive(f.slot)
	case f.done < len(f.into.all) && !c.ending.failing:
		c.readMore()
		return
	}
	c.wake()
}

// wakeReceiver has the call of Recv go on that waits for memory, or the next one.
func (c *Conn) wakeReceiver() {
	c.arrived.raise()
	c.pump.nudge()
	if p := c.shape.pool; p != nil {
		p.ready.push(c)
		p.seats[0].pump.nudge()
	}
}
