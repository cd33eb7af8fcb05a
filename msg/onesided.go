package msg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// Write copies the bytes of from to the peer's region, starting at off, without
// involving the peer's program. It returns when the device has completed the operation.
// Over iWARP that does not mean that the bytes have arrived. A Write and messages sent
// after it arrive in that order.
//
// If ctx ends first, the device may still perform the operation. It owns from until the
// operation has finished. [Region.Close] succeeds after that. The same is true of Read.
func (c *Conn) Write(ctx context.Context, to RemoteRegion, off uint64, from Span) error {
	return c.failed("write", c.transfer(ctx, verbs.OpRDMAWrite, MayWrite, to, off, from))
}

// Read fills into with bytes of the peer's region, starting at off.
func (c *Conn) Read(ctx context.Context, into Span, from RemoteRegion, off uint64) error {
	return c.failed("read", c.transfer(ctx, verbs.OpRDMARead, MayRead, from, off, into))
}

func (c *Conn) transfer(ctx context.Context, code verbs.Opcode, right Rights, r RemoteRegion, off uint64, s Span) error {
	if err := r.check(off, uint64(s.n), right); err != nil {
		return err
	}
	if s.region == nil || s.region.domain != c.domain {
		return fmt.Errorf("%w: the span is not in this connection's memory", ErrOutOfBounds)
	}
	o, err := c.takeOp(ctx)
	if err != nil {
		return err
	}
	if err := s.region.use(); err != nil {
		c.freeOp(o)
		return err
	}
	o.region, o.sge[0] = s.region, s.region.mem.SGE(s.off, s.n)
	o.wr[0] = verbs.SendWR{Opcode: code, SGL: o.sge[:], RemoteAddr: r.Addr + off, RKey: r.RKey}
	return c.runAndFree(ctx, o)
}

func (c *Conn) runAndFree(ctx context.Context, o *op) error {
	err := c.run(ctx, o)
	if err == nil {
		c.freeOp(o)
	}
	return err
}

// CompareAndSwap stores new in the 8 bytes at off of the peer's region if their value
// is old. It returns the previous value. The bytes have the byte order of the peer's
// machine, and their address must be a multiple of 8. siw has no atomic operations;
// the error matches verbs.ErrInvalidWR or ErrNotSupported.
func (c *Conn) CompareAndSwap(ctx context.Context, r RemoteRegion, off, old, new uint64) (uint64, error) {
	v, err := c.atomic(ctx, r, off, verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: old, Swap: new})
	return v, c.failed("compare and swap", err)
}

// FetchAdd adds to the value of the 8 bytes at off of the peer's region. It returns the
// previous value. The rules of CompareAndSwap apply.
func (c *Conn) FetchAdd(ctx context.Context, r RemoteRegion, off, add uint64) (uint64, error) {
	v, err := c.atomic(ctx, r, off, verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: add})
	return v, c.failed("fetch and add", err)
}

func (c *Conn) atomic(ctx context.Context, r RemoteRegion, off uint64, wr verbs.SendWR) (uint64, error) {
	if err := r.check(off, 8, MayAtomic); err != nil {
		return 0, err
	}
	if (r.Addr+off)%8 != 0 {
		return 0, fmt.Errorf("%w: address %#x is not a multiple of 8", ErrOutOfBounds, r.Addr+off)
	}
	o, err := c.takeOp(ctx)
	if err != nil {
		return 0, err
	}
	o.sge[0], o.wr[0] = o.own, wr
	o.wr[0].SGL, o.wr[0].RemoteAddr, o.wr[0].RKey = o.sge[:], r.Addr+off, r.RKey
	if err := c.run(ctx, o); err != nil {
		return 0, err
	}
	v := o.old()
	c.freeOp(o)
	return v, nil
}

// Do posts any work request and waits for its completion. Use it for operations that
// Conn has no method for. Do sets the request's WRID and the signaled flag. It
// refuses a SEND, because that would use up a receive that the peer has not granted.
// The device owns the memory of wr until the completion, even if ctx ends first.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) error {
	switch wr.Opcode {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWriteImm:
		return c.failed("do", fmt.Errorf("%w: %v consumes a receive of the peer", verbs.ErrInvalidWR, wr.Opcode))
	}
	o, err := c.takeOp(ctx)
	if err != nil {
		return c.failed("do", err)
	}
	o.wr[0] = *wr
	return c.failed("do", c.runAndFree(ctx, o))
}

// op is a slot for a work request that a call waits for. Its generation distinguishes
// the completion of this use from those of earlier ones.
type op struct {
	slot      int
	gen       uint16
	wr        [1]verbs.SendWR
	sge       [1]verbs.SGE // of own, or of a Span
	own       verbs.SGE
	value     []byte // the 8 bytes of own
	region    *Region
	done      chan error
	abandoned bool // guarded by the connection's lock
	posted    bool // guarded by the connection's lock
}

// opRoom is the size of an op's own memory, which receives the result of an atomic
// operation.
const opRoom = 8

// makeOps allocates the slots before the first operation. Many connections need none.
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

// takeOp waits for a free slot. If the peer has to send first, it waits for that too.
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

// run posts the op's work request and waits for it. If ctx ends first, the device may
// still perform the operation, and the slot is used again afterwards. After an error
// the caller no longer owns o.
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
	return c.end(o, <-o.done) // it has completed meanwhile
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

// completeOp handles the completion of an op. c is held.
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

// settleOp wakes the waiter, or frees the slot if the waiter has left.
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
	c.ops <- o // it has room for all
	c.poller.turn.Wake()
}

// old returns the result of an atomic operation.
func (o *op) old() uint64 { return binary.NativeEndian.Uint64(o.value) }
