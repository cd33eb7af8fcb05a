package msg

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// op is a slot for a work request that somebody waits for. Its generation tells the
// completion of this use from that of an earlier one.
type op struct {
	slot      int
	gen       uint16
	wr        [1]verbs.SendWR
	sge       [1]verbs.SGE // of 8 bytes of its own, or of span
	own       verbs.SGE
	value     []byte // the 8 bytes
	region    *Region
	done      chan error
	abandoned bool // guarded by the connection's lock
	posted    bool // likewise
}

// opRoom is the memory of an op: what an atomic operation found.
const opRoom = 8

// makeOps is for the first operation. Many connections have none.
func (c *Conn) makeOps() {
	made := make([]*op, opSlots)
	for i := range made {
		made[i] = &op{slot: i, value: c.opRoom[i*opRoom:][:opRoom], own: c.ring.SGE(c.opsAt+i*opRoom, opRoom), done: make(chan error, 1)}
		c.ops <- made[i]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opBySlot = made
}

// takeOp waits for a free slot, and for the peer to have spoken if it has to do so first.
func (c *Conn) takeOp(ctx context.Context) (*op, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.opsOnce.Do(c.makeOps)
	if _, err := wait.Await(ctx, &c.poller.turn, c.poller, c.opened, c.down); err != nil {
		return nil, c.explainEnd(err)
	}
	o, err := wait.Await(ctx, &c.poller.turn, c.poller, c.ops, c.down)
	return o, c.explainEnd(err)
}

// run posts the op's work request and waits. When ctx ends first, the device may still
// carry it out; the slot is used again when it has. With an error o is not the caller's
// any more.
func (c *Conn) run(ctx context.Context, o *op) error {
	if err := c.start(o); err != nil {
		return err
	}
	result, err := wait.Await(ctx, &c.poller.turn, c.poller, o.done, c.ending.shut)
	if err == nil {
		return c.end(o, result)
	}
	c.mu.Lock()
	if err == wait.ErrEnded {
		err = c.ending.whyDown()
	}
	if o.posted {
		o.abandoned = true
		c.mu.Unlock()
		return err
	}
	c.mu.Unlock()
	return c.end(o, <-o.done) // it completed meanwhile
}

func (c *Conn) end(o *op, err error) error {
	if err != nil {
		c.freeOp(o)
	}
	return err
}

func (c *Conn) start(o *op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.isDown {
		c.freeOp(o)
		return c.ending.whyDown()
	}
	o.gen++
	o.wr[0].WRID = uint64(newWRID(c.id, kindOp, o.gen, o.slot))
	o.wr[0].Flags |= verbs.SendSignaled
	c.want(1)
	n, err := c.link.PostSend(o.wr[:])
	c.outstanding += n
	if o.posted = n == 1; !o.posted {
		c.want(-1)
	}
	switch {
	case n == 0 && errors.Is(err, verbs.ErrInvalidWR): // nothing happened
		c.freeOp(o)
		return err
	case err != nil:
		c.fail(c.link.explain(err))
		if !o.posted {
			c.freeOp(o)
			return c.ending.whyDown()
		}
	}
	return nil
}

// completeOp is for the op that the completion names. c is held.
func (c *Conn) completeOp(w wrid, wc *verbs.WC) {
	o := c.opBySlot[w.slot()]
	if !o.posted || w.gen() != o.gen&0xfff {
		return
	}
	switch {
	case wc.Status == verbs.StatusSuccess:
		c.settleOp(o, nil)
	case wc.Status == verbs.StatusWRFlushErr:
		c.settleOp(o, c.ending.first)
	default:
		c.settleOp(o, wc.Err())
	}
}

// settleOp wakes the waiter, or frees the slot of one that has left.
func (c *Conn) settleOp(o *op, err error) {
	o.posted = false
	c.want(-1)
	if o.abandoned {
		o.abandoned = false
		c.freeOp(o)
		return
	}
	o.done <- err
}

func (c *Conn) freeOp(o *op) {
	if o.region != nil {
		o.region.users.Add(-1)
		o.region = nil
	}
	o.wr[0] = verbs.SendWR{}
	c.ops <- o // there is room for all
	c.poller.turn.Wake()
}

// old is what an atomic operation found.
func (o *op) old() uint64 { return binary.NativeEndian.Uint64(o.value) }
