package msg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/goverbs/goverbs/internal/onesided"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// Op is an operation on memory of the peer, which does not involve the peer's program. [Conn.Do] performs it.
type Op struct {
	// Opcode is verbs.OpRDMARead, OpRDMAWrite, OpCompareSwap or OpFetchAdd. A READ copies bytes of Remote to Local, a
	// WRITE those of Local to Remote. The other two are atomic operations: OpCompareSwap stores Swap in 8 bytes of
	// Remote if their value is CompareAdd, and OpFetchAdd adds CompareAdd to their value. They ignore Local. The bytes
	// have the byte order of the peer's machine, and their address must be a multiple of 8.
	Opcode verbs.Opcode
	Local  Span
	Remote RemoteRegion
	Offset uint64 // of the first byte in Remote

	CompareAdd, Swap uint64

	// Do sets the fields below.

	Old uint64 // the value before an atomic operation
	Err error  // nil if the operation has been performed
}

// Do performs a batch of operations, and waits for all of them once. Up to 64 are posted together. They begin in order,
// and messages sent after them arrive after the WRITEs. READs may overlap later WRITEs. Do returns nil if the Err of
// each is nil, and otherwise the first of these errors. It uses ops only until it returns, and a batch that is no
// longer than earlier ones allocates nothing.
//
// When a WRITE is complete, the device has sent its bytes. Over iWARP that does not mean that they have arrived. siw
// has no atomic operations. It performs the others of a batch, and the errors of these match errors.ErrUnsupported.
//
// If one operation is invalid, such as one beyond the end of its RemoteRegion, none is performed. If the connection
// ends, some have been performed: those without an error, and perhaps those with one.
//
// If ctx ends first, the device may still perform operations whose Err matches ctx.Err(). It owns their memory until
// they have finished. [Region.Close] succeeds after that. The same is true of Read, Write, and the atomic operations.
func (c *Conn) Do(ctx context.Context, ops []Op) error {
	if len(ops) == 0 {
		return nil
	}
	b := c.takeBatch()
	b.ops = ops
	i, _, err := c.perform(ctx, b)
	if err != nil && len(ops) > 1 {
		err = fmt.Errorf("operation %d of %d: %w", i+1, len(ops), err)
	}
	return c.failed("do on", err)
}

// Write copies the bytes of from to the peer's region, starting at off. The rules of Do apply.
func (c *Conn) Write(ctx context.Context, to RemoteRegion, off uint64, from Span) error {
	_, err := c.doOne(ctx, Op{Opcode: verbs.OpRDMAWrite, Local: from, Remote: to, Offset: off})
	return c.failed("write on", err)
}

// Read fills into with bytes of the peer's region, starting at off. The rules of Do apply.
func (c *Conn) Read(ctx context.Context, into Span, from RemoteRegion, off uint64) error {
	_, err := c.doOne(ctx, Op{Opcode: verbs.OpRDMARead, Local: into, Remote: from, Offset: off})
	return c.failed("read on", err)
}

// CompareAndSwap stores new in the 8 bytes at off of the peer's region if their value is old. It returns the previous
// value. The rules of Do and [Op] apply.
func (c *Conn) CompareAndSwap(ctx context.Context, r RemoteRegion, off, old, new uint64) (uint64, error) {
	v, err := c.doOne(ctx, Op{Opcode: verbs.OpCompareSwap, Remote: r, Offset: off, CompareAdd: old, Swap: new})
	return v, c.failed("compare and swap on", err)
}

// FetchAdd adds to the value of the 8 bytes at off of the peer's region. It returns the previous value. The rules of Do
// and [Op] apply.
func (c *Conn) FetchAdd(ctx context.Context, r RemoteRegion, off, add uint64) (uint64, error) {
	v, err := c.doOne(ctx, Op{Opcode: verbs.OpFetchAdd, Remote: r, Offset: off, CompareAdd: add})
	return v, c.failed("fetch and add on", err)
}

// DoWR posts any work request and waits for its completion. Use it for operations that Conn has no method for. DoWR
// sets the WRID and the signaled flag. It refuses a SEND, because that would use up a receive that the peer has not
// granted. The device owns the memory of wr until the completion, even if ctx ends first.
func (c *Conn) DoWR(ctx context.Context, wr *verbs.SendWR) error {
	switch wr.Opcode {
	case verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWriteImm:
		return c.failed("do on", fmt.Errorf("%w: %v consumes a receive of the peer", verbs.ErrInvalidWR, wr.Opcode))
	}
	return c.failed("do on", c.doWR(ctx, wr))
}

func (c *Conn) doWR(ctx context.Context, wr *verbs.SendWR) error {
	b := c.takeBatch()
	b.one[0], b.wr = Op{Opcode: wr.Opcode}, *wr
	b.ops, b.isWR = b.one[:], true
	_, _, err := c.perform(ctx, b)
	return err
}

func (c *Conn) doOne(ctx context.Context, o Op) (old uint64, err error) {
	b := c.takeBatch()
	b.one[0] = o
	b.ops = b.one[:]
	_, old, err = c.perform(ctx, b)
	return old, err
}

// batch is a call's operations. The connection's lock guards it, but ops belongs to the call before they are queued,
// and once all are settled.
type batch struct {
	ops       []Op
	next      int // the first operation that has not been posted completely
	off       int // how many of its bytes have been
	left      int // work requests that have not been settled
	queued    bool
	abandoned bool   // the call has left
	done      signal // the call may return

	one  [1]Op
	wr   verbs.SendWR // the only work request, if isWR is set
	isWR bool
}

// opEntry is a work request of a batch.
type opEntry struct {
	batch  *batch
	op     *Op     // nil if the call has left
	region *Region // in use
	index  int     // op's, in the batch
	off    int     // its first byte, in op
}

// opRoom is the size of a slot's own memory, which receives the result of an atomic
// operation.
const opRoom = 8

var errNotPerformed = errors.New("not performed, because another operation of the batch is invalid")

func (c *Conn) takeBatch() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onesided == nil { // many connections need none
		c.onesided = &onesided.Queue[opEntry]{WRID: c.opWRID, Settled: c.settleOp}
		c.onesided.Init(opSlots)
	}
	n := len(c.spare)
	if n == 0 {
		return &batch{done: newSignal()}
	}
	b := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return b
}

// freeBatch keeps b for another call. c is held.
func (c *Conn) freeBatch(b *batch) {
	select {
	case <-b.done:
	default:
	}
	*b = batch{done: b.done}
	c.spare = append(c.spare, b)
}

// perform performs the batch and frees it. If there is an error, it returns the first one and the index of its
// operation. old is the result of the first operation.
func (c *Conn) perform(ctx context.Context, b *batch) (first int, old uint64, err error) {
	if err = c.start(ctx, b); err == nil {
		_, err = wait.Await(ctx, &c.poller.turn, c.poller, b.done, c.ending.shut)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || err == wait.ErrEnded {
		err = c.ending.whyDown()
	}
	if b.queued || b.left > 0 { // otherwise it has been completed meanwhile
		c.abandon(b, err)
	}
	first, old, err = b.result()
	if !b.abandoned {
		c.freeBatch(b)
	}
	return first, old, err
}

func (b *batch) result() (first int, old uint64, err error) {
	for i := range b.ops {
		if err := b.ops[i].Err; err != nil && err != errNotPerformed {
			return i, 0, err
		}
	}
	return 0, b.ops[0].Old, nil
}

// start checks the operations and posts those for which there is room. The completions of others post the rest. If the
// peer has to send first, start waits for that. After an error, which is in all operations, nothing was posted.
func (c *Conn) start(ctx context.Context, b *batch) error {
	for i := range b.ops {
		b.ops[i].Old, b.ops[i].Err = 0, nil
	}
	for i := range b.ops {
		if err := c.checkOp(b, &b.ops[i]); err != nil {
			b.failRest(errNotPerformed)
			b.ops[i].Err = err
			return err
		}
	}
	err := ctx.Err()
	if err == nil {
		_, err = wait.Await(ctx, &c.poller.turn, c.poller, c.opened, c.down)
	}
	if err = c.explainEnd(err); err != nil {
		b.failRest(err)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.isDown {
		err := c.ending.whyDown()
		b.failRest(err)
		return err
	}
	c.batches.push(b)
	b.queued = true
	c.want(1)
	c.postOps()
	return nil
}

func (c *Conn) checkOp(b *batch, o *Op) error {
	if b.isWR {
		return nil
	}
	n, right := uint64(o.Local.n), MayRead
	switch o.Opcode {
	case verbs.OpRDMARead:
	case verbs.OpRDMAWrite:
		right = MayWrite
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		n, right = 8, MayAtomic
	default:
		return fmt.Errorf("%w: %v is none of READ, WRITE, compare and swap, fetch and add", verbs.ErrInvalidWR, o.Opcode)
	}
	if err := o.Remote.check(o.Offset, n, right); err != nil {
		return err
	}
	switch {
	case right != MayAtomic && (o.Local.region == nil || o.Local.region.domain != c.domain):
		return fmt.Errorf("%w: the span is not in this connection's memory", ErrOutOfBounds)
	case right == MayAtomic && (o.Remote.Addr+o.Offset)%8 != 0:
		return fmt.Errorf("%w: address %#x is not a multiple of 8", ErrOutOfBounds, o.Remote.Addr+o.Offset)
	}
	return nil
}

// failRest sets the error of the operations that have not been posted completely.
func (b *batch) failRest(err error) {
	for i := b.next; i < len(b.ops); i++ {
		b.ops[i].Err = err
	}
	b.next = len(b.ops)
}

// postOps posts operations of the waiting batches as long as there is room. c is held.
func (c *Conn) postOps() {
	for c.batches.len() > 0 && c.onesided.Room() > 0 {
		b := *c.batches.head()
		for b.next < len(b.ops) && c.onesided.Room() > 0 {
			c.addOp(b)
		}
		p := c.onesided.Post(c.link.PostSend)
		c.outstanding += p.Signaled
		if p.Err != nil {
			c.onRefused(b, &p)
		}
		if b.queued && b.next == len(b.ops) {
			c.batches.pop()
			b.queued = false
			c.endBatch(b)
		}
	}
}

// addOp adds the next work request of a batch.
func (c *Conn) addOp(b *batch) {
	o := &b.ops[b.next]
	e := opEntry{batch: b, op: o, index: b.next, off: b.off}
	wr := verbs.SendWR{Opcode: o.Opcode, RemoteAddr: o.Remote.Addr + o.Offset + uint64(b.off), RKey: o.Remote.RKey}
	var local verbs.SGE
	last := true
	switch {
	case b.isWR:
		wr = b.wr
	case o.Opcode == verbs.OpCompareSwap || o.Opcode == verbs.OpFetchAdd:
		local = c.ring.SGE(c.opsAt+c.onesided.Next()*opRoom, opRoom)
		wr.CompareAdd, wr.Swap = o.CompareAdd, o.Swap
	default:
		if e.region = o.Local.region; e.region.use() != nil {
			o.Err = net.ErrClosed
			b.next, b.off = b.next+1, 0
			return
		}
		n := min(o.Local.n-b.off, onesided.MaxLength)
		local = e.region.mem.SGE(o.Local.off+b.off, n)
		b.off += n
		last = b.off == o.Local.n
	}
	b.left++
	c.onesided.Add(&wr, local, e)
	if last {
		b.next, b.off = b.next+1, 0
	}
}

// onRefused handles an error of a post. If the device does not know an operation, the others go on. Any other error
// ends the connection.
func (c *Conn) onRefused(b *batch, p *onesided.Posted[opEntry]) {
	cause := p.Err
	b.next, b.off = p.Refused.index, 0
	refused := errors.Is(cause, verbs.ErrInvalidWR) || errors.Is(cause, errors.ErrUnsupported)
	if refused && p.Certain && p.Refused.off == 0 {
		for i := b.next + 1; i < len(b.ops); i++ {
			b.ops[i].Err = nil // they are posted again
		}
		b.next++
		return
	}
	c.fail(c.link.explain(cause))
	if !p.Certain {
		b.done.raise() // no completion will do that
	}
}

func (c *Conn) opWRID(seq uint32, signaled bool) uint64 {
	kind := kindQuietOp
	if signaled {
		kind = kindOp
	}
	return uint64(newWRID(c.id, kind, uint16(seq>>16), int(seq)))
}

// completeOp handles the completion of an operation. c is held.
func (c *Conn) completeOp(w wrid, wc *verbs.WC) {
	if c.onesided == nil {
		return
	}
	var err error
	switch wc.Status {
	case verbs.StatusSuccess:
	case verbs.StatusWRFlushErr:
		err = c.ending.first
	default:
		err = wc.Err()
	}
	c.onesided.Complete(uint32(w.gen())<<16|uint32(w.slot()), w.kind() == kindOp, err)
	c.postOps()
}

// settleOp handles the end of a work request.
func (c *Conn) settleOp(e *opEntry, slot int, err error) {
	if e.region != nil {
		e.region.users.Add(-1)
	}
	b, o := e.batch, e.op
	*e = opEntry{}
	switch {
	case o == nil:
	case err != nil:
		o.Err = err
	case o.Opcode == verbs.OpCompareSwap || o.Opcode == verbs.OpFetchAdd:
		o.Old = binary.NativeEndian.Uint64(c.opRoom[slot*opRoom:])
	}
	b.left--
	c.endBatch(b)
}

// endBatch wakes the call when nothing of its batch is left, or frees the batch if the call has left.
func (c *Conn) endBatch(b *batch) {
	if b.left > 0 || b.queued {
		return
	}
	c.want(-1)
	if b.abandoned {
		c.freeBatch(b)
		return
	}
	b.done.raise()
	c.poller.turn.Wake()
}

// abandon leaves a batch, whose operations the device may still perform. cause is why.
func (c *Conn) abandon(b *batch, cause error) {
	b.failRest(cause)
	c.onesided.Outstanding(func(e *opEntry) {
		if e.batch == b {
			e.op.Err, e.op = cause, nil
		}
	})
	b.abandoned = true
	if b.queued {
		b.queued = false
		c.batches.removeFunc(func(other *batch) bool { return other == b })
	}
}

// failBatches ends the batches that have not been posted completely. c is held.
func (c *Conn) failBatches() {
	for c.batches.len() > 0 {
		b := *c.batches.head()
		c.batches.pop()
		b.queued = false
		b.failRest(c.ending.whyDown())
		c.endBatch(b)
	}
}
