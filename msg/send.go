package msg

import (
	"context"
	"errors"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

var (
	errAgain = errors.New("not yet")
	errOver  = errors.New("the connection has ended")
)

// Send sends a copy of b. It returns when the message is on its way, which may be before
// the peer has it; b is the caller's again. It waits while the peer has not released
// enough messages. An error means that the message was not sent, except one that
// ends the connection. Messages sent one after another arrive in that order.
func (c *Conn) Send(ctx context.Context, b []byte) error {
	buf, err := c.Alloc(ctx, len(b))
	if err != nil {
		return failed("send", err.(*Error).Err)
	}
	copy(buf.data, b)
	if err := c.SendBuffer(ctx, buf); err != nil {
		buf.Free()
		return err
	}
	return nil
}

// SendBuffer sends a buffer that this connection's Alloc has lent, without a copy. When
// it succeeds the buffer belongs to the connection; after an error it is still the
// caller's. Otherwise it is like Send.
func (c *Conn) SendBuffer(ctx context.Context, b *Buffer) error {
	return failed("send", c.sendBuffer(ctx, b))
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
		if _, err := wait.Await(ctx, &c.poller.turn, c.poller, c.room, c.down); err != nil {
			return c.explainEnd(err)
		}
	}
}

var errNotLent = errors.New("the buffer is not lent by this connection, or was sent")

// trySend posts b if the peer has room. The connection is ended by a post that fails.
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
		return c.tryLend(b)
	}
	b.lent = false
	c.sent++
	c.newFrame(typeData, 0, uint32(len(b.data)), c.sent).put(b.all)
	b.sge[0].Length = uint32(frameSize + len(b.data))
	c.quiet.sign(b)
	return c.post(b.wr[:])
}

// tryLend tells the peer where b lies.
func (c *Conn) tryLend(b *Buffer) error {
	if !c.loans.room() || c.controls >= controls-2 {
		return errAgain
	}
	b.lent = false
	c.sent++
	b.cookie = c.sent
	c.loans.add(b)
	rts{b.mem.Addr(), uint64(len(b.data)), b.mem.RKey()}.put(c.header[frameSize:])
	return c.postControl(c.newFrame(typeRTS, 0, rtsSize, c.sent))
}

// newFrame makes a header that tells the peer its limit. c is held, and posts it.
func (c *Conn) newFrame(t frameType, flags uint8, length uint32, cookie uint64) frame {
	if t.usesCredit() {
		c.allow.sent++
	}
	return frame{t, flags, c.grant.tell(), length, cookie}
}

// postControl posts a frame that needs no buffer; what follows the header stands behind
// it already.
func (c *Conn) postControl(f frame) error {
	f.put(c.header[:])
	c.control[0] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		WRID: uint64(newWRID(c.id, kindControl, 0, 0)), Inline: c.header[:frameSize+f.length]}
	c.controls++
	c.want(1)
	return c.post(c.control[:])
}

// post posts one work request. When it fails the connection ends.
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

// flush sends the frames that are due and do not wait for the program. c is held.
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
