package msg

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Write puts the bytes of from into the peer's region, from off on, without the peer's
// program. It returns when the device has completed it; over iWARP that does not mean that
// the bytes have arrived. A Write and messages sent after it arrive in that order.
//
// When ctx ends first, the operation may still be carried out, and from belongs to the
// device until it is: [Region.Close] says when. That holds for Read too.
func (c *Conn) Write(ctx context.Context, to RemoteRegion, off uint64, from Span) error {
	return failed("write", c.transfer(ctx, verbs.OpRDMAWrite, MayWrite, to, off, from))
}

// Read fills into with bytes of the peer's region, from off on.
func (c *Conn) Read(ctx context.Context, into Span, from RemoteRegion, off uint64) error {
	return failed("read", c.transfer(ctx, verbs.OpRDMARead, MayRead, from, off, into))
}

func (c *Conn) transfer(ctx context.Context, code verbs.Opcode, right Rights, r RemoteRegion, off uint64, s Span) error {
	if err := r.check(off, uint64(s.n), right); err != nil {
		return err
	}
	if s.region == nil || s.region.domain != c.domain {
		return fmt.Errorf("%w: the span is not of this connection's memory", ErrOutOfBounds)
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

// CompareAndSwap stores new in the 8 bytes at off of the peer's region if they hold old.
// It returns what they held. The bytes have the order of the peer's machine, and their
// address must be a multiple of 8. Software iWARP has no atomic operations:
// verbs.ErrInvalidWR or ErrNotSupported.
func (c *Conn) CompareAndSwap(ctx context.Context, r RemoteRegion, off, old, new uint64) (uint64, error) {
	v, err := c.atomic(ctx, r, off, verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: old, Swap: new})
	return v, failed("compare and swap", err)
}

// FetchAdd adds to the 8 bytes at off of the peer's region, with the rules of
// CompareAndSwap. It returns what they held before.
func (c *Conn) FetchAdd(ctx context.Context, r RemoteRegion, off, add uint64) (uint64, error) {
	v, err := c.atomic(ctx, r, off, verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: add})
	return v, failed("fetch and add", err)
}

func (c *Conn) atomic(ctx context.Context, r RemoteRegion, off uint64, wr verbs.SendWR) (uint64, error) {
	if err := r.check(off, 8, MayAtomic); err != nil {
		return 0, err
	}
	if (r.Addr+off)%8 != 0 {
		return 0, fmt.Errorf("%w: address %#x is no multiple of 8", ErrOutOfBounds, r.Addr+off)
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

// Do posts any work request and waits for its completion, for what has no method here. Its
// WRID and flags are completed. A SEND is refused, because it would take a receive that
// the peer has not granted. What wr names in memory belongs to the device until the
// completion, also when ctx ends first.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) error {
	switch wr.Opcode {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWriteImm:
		return &Error{"do", fmt.Errorf("%w: %v takes a receive of the peer", verbs.ErrInvalidWR, wr.Opcode)}
	}
	o, err := c.takeOp(ctx)
	if err != nil {
		return failed("do", err)
	}
	o.wr[0] = *wr
	return failed("do", c.runAndFree(ctx, o))
}
