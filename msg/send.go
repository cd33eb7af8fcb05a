package msg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

var (
	errAgain = errors.New("not yet")
	errOver  = errors.New("the connection has ended")
)

// Send sends a copy of b. It returns when the message is on its way, possibly before
// the peer has received it. It waits while the peer has not released enough messages.
// After an error the message was not sent, unless the error ended the connection.
// Successive messages arrive in order.
func (c *Conn) Send(ctx context.Context, b []byte) error {
	buf, err := c.lend(ctx, len(b))
	if err != nil {
		return c.failed("send on", err)
	}
	copy(buf.data, b)
	if err := c.SendBuffer(ctx, buf); err != nil {
		buf.Free()
		return err
	}
	return nil
}

// SendBuffer sends a buffer that Alloc of this connection has lent, without a copy. If
// it succeeds, the buffer belongs to the connection. After an error it still belongs to
// the caller. Otherwise SendBuffer is like Send.
func (c *Conn) SendBuffer(ctx context.Context, b *Buffer) error {
	return c.failed("send on", c.sendBuffer(ctx, b))
}

func (c *Conn) sendBuffer(ctx context.Context, b *Buffer) error {
	if b.c != c || !b.lent {
		return errNotLent
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.sendTurn.Acquire(ctx, c.down); err != nil {
		return c.explainEnd(err)
	}
	defer c.sendTurn.Release()
	for {
		if err := c.trySend(b); err != errAgain {
			return err
		}
		if t := c.shape.transport.Trace; t != nil && t.NoRoom != nil {
			t.NoRoom(c.LocalAddr(), c.RemoteAddr())
		}
		start := time.Now()
		_, err := wait.Await(ctx, &c.poller.turn, c.poller, c.room, c.down)
		c.waitedForRoom(start)
		if err != nil {
			return c.explainEnd(err)
		}
	}
}

var errNotLent = errors.New("the buffer is not lent by this connection, or was sent")

// trySend posts b if the peer has room. If the post fails, the connection ends.
func (c *Conn) trySend(b *Buffer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ending.isDown:
		return c.ending.whyDown()
	case !c.allow.mayData():
		return errAgain
	}
	if b.slot == noSlot {
		return c.trySendLarge(b)
	}
	b.lent = false
	c.sent++
	c.stats.BytesSent += uint64(len(b.data))
	c.newFrame(typeData, 0, uint32(len(b.data)), c.sent).put(b.all)
	b.sge[0].Length = uint32(frameSize + len(b.data))
	c.unsignaled.prepare(b)
	return c.post(b.wr[:])
}

// trySendLarge sends the location of b to the peer.
func (c *Conn) trySendLarge(b *Buffer) error {
	if !c.lent.room() || c.controls >= controls-2 {
		return errAgain
	}
	b.lent = false
	c.sent++
	c.stats.BytesSent += uint64(len(b.data))
	b.cookie = c.sent
	c.lent.add(b)
	rts{b.mem.Addr(), uint64(len(b.data)), b.mem.RKey()}.put(c.header[frameSize:])
	return c.postControl(c.newFrame(typeRTS, 0, rtsSize, c.sent))
}

// newFrame returns a header with the peer's limit. c is held, and the caller posts the
// frame.
func (c *Conn) newFrame(t frameType, flags uint8, length uint32, cookie uint64) frame {
	if t.usesCredit() {
		c.allow.sent++
	}
	return frame{t, flags, c.grant.announce(), length, cookie}
}

// postControl posts a frame that needs no buffer. The payload is in c.header already.
func (c *Conn) postControl(f frame) error {
	f.put(c.header[:])
	c.control[0] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		WRID: uint64(newWRID(c.id, kindControl, 0, 0)), Inline: c.header[:frameSize+f.length]}
	c.controls++
	c.want(1)
	return c.post(c.control[:])
}

// post posts one work request. If that fails, the connection ends.
func (c *Conn) post(wr []verbs.SendWR) error {
	n, err := c.link.PostSend(wr)
	if wr[0].Flags&verbs.SendSignaled != 0 {
		c.outstanding += n
	}
	if err != nil {
		c.fail(c.link.explain(err))
		return c.ending.whyDown()
	}
	return nil
}

// flush posts the frames that are due and do not depend on the program. c is held.
func (c *Conn) flush() {
	for c.isOpen && !c.ending.failing && c.controls < controls {
		switch {
		case c.fins.len() > 0:
			cookie := *c.fins.head()
			c.fins.pop()
			_ = c.postControl(c.newFrame(typeFIN, 0, 0, cookie))
		case c.ending.closeDue:
			c.ending.closeDue = false
			_ = c.postControl(c.newFrame(typeClose, c.ending.closeFlags, 0, c.sent))
		case c.grant.due() && c.allow.mayGrant():
			_ = c.postControl(c.newFrame(typeCredit, 0, 0, 0))
		default:
			return
		}
	}
}

// Buffer is registered memory to send from without a copy. [Conn.Alloc] lends it.
// [Conn.SendBuffer] and Free take it back. While a program keeps buffers, other senders
// of the connection can't use them.
type Buffer struct {
	c      *Conn
	slot   int // index among the connection's small buffers, or noSlot
	mem    memory
	all    []byte // the whole memory; a small buffer has room for the header
	data   []byte // the part that the program uses
	lent   bool
	before *Buffer      // the buffer of the unsignaled message before this one
	cookie uint64       // cookie of the RTS
	sge    [1]verbs.SGE // of a small buffer
	wr     [1]verbs.SendWR
	msg    Message // the large message received into it

	// The rest is for large buffers. The lock of the budget guards it.
	heap         *heap
	received     bool    // its memory is reserved
	older, newer *Buffer // links in the list of free buffers
}

const noSlot = -1

// Bytes returns the memory, with the length passed to Alloc. It is not cleared.
func (b *Buffer) Bytes() []byte { return b.data }

// Free returns the buffer without sending it. It does nothing if the buffer was sent.
func (b *Buffer) Free() {
	if b != nil && b.lent {
		c := b.c // read first, because b may be reused by another connection after recycle
		c.recycle(b)
		c.poller.turn.Wake()
	}
}

// Alloc lends a buffer of n bytes. If all are in use, it waits for one until ctx is
// done.
func (c *Conn) Alloc(ctx context.Context, n int) (*Buffer, error) {
	if isClosed(c.down) {
		return nil, c.failed("allocate on", c.downCause())
	}
	b, err := c.lend(ctx, n)
	return b, c.failed("allocate on", err)
}

func (c *Conn) lend(ctx context.Context, n int) (*Buffer, error) {
	b, err := c.alloc(ctx, n)
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("%w: %d bytes, and it accepts %d", ErrTooLong, n, c.peer.longest)
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

// takeSmall waits for a small buffer. Completed sends return buffers, and are polled
// only when there is none left.
func (c *Conn) takeSmall(ctx context.Context) (*Buffer, error) {
	select {
	case b := <-c.small:
		return b, nil
	default:
	}
	c.wantBuffer(1)
	defer c.wantBuffer(-1)
	c.poller.reap()
	return wait.Await(ctx, &c.poller.turn, c.poller, c.small, c.down)
}

func (c *Conn) wantBuffer(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want(n)
}

// recycle makes b available again. c may be held.
func (c *Conn) recycle(b *Buffer) {
	b.lent, b.data = false, nil
	if b.slot == noSlot {
		c.heap.put(b)
		return
	}
	c.small <- b // it has room for all of them
}

// unsignaled leaves most messages unsignaled, because a completion costs the kernel and
// this side a few hundred instructions each. Sends complete in order, so the completion
// of a message stands for the unsignaled ones before it.
type unsignaled struct {
	most int     // in a row
	last *Buffer // the latest message if that was unsignaled, or nil
	n    int     // in a row so far
}

// prepare fills in the work request of the next message.
func (q *unsignaled) prepare(b *Buffer) {
	b.before = q.last
	kind := kindUnsignaled
	if q.n < q.most {
		q.last, q.n = b, q.n+1
		b.wr[0].Flags = 0
	} else {
		q.last, q.n = nil, 0
		b.wr[0].Flags, kind = verbs.SendSignaled, kindData
	}
	b.wr[0].WRID = uint64(newWRID(b.c.id, kind, 0, b.slot))
}

// lentBuffers holds the large messages that have been announced to the peer and that it
// has not read.
type lentBuffers struct {
	buffers [rendezvous]*Buffer
	count   int
}

func (l *lentBuffers) room() bool { return l.count < rendezvous }

func (l *lentBuffers) add(b *Buffer) {
	for i := range l.buffers {
		if l.buffers[i] == nil {
			l.buffers[i] = b
			l.count++
			return
		}
	}
}

// remove removes the buffer with a cookie and returns it, or nil.
func (l *lentBuffers) remove(cookie uint64) *Buffer {
	for i, b := range l.buffers {
		if b != nil && b.cookie == cookie {
			l.buffers[i] = nil
			l.count--
			return b
		}
	}
	return nil
}

// onFIN takes back a buffer that the peer has read.
func (c *Conn) onFIN(cookie uint64) error {
	b := c.lent.remove(cookie)
	if b == nil {
		return violation("FIN with cookie %d", cookie)
	}
	c.recycle(b)
	return nil
}

// Format implements [fmt.Formatter]. It prints the length, never the data.
func (b *Buffer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "buffer of %d bytes", len(b.data)) }
