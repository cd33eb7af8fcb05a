package mlx5

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// qp holds a QP's two queues. The receive queue has no entries if the QP uses an SRQ.
type qp struct {
	ece
	ctx            *mlx5Context
	typ            verbs.QPType
	num, index     uint32
	sendCQ, recvCQ *cq
	srq            *srq
	sq             sendQueue
	plain          [plainOpcodes]plain
	controls       [4]uint32 // flags of a plain request, by half its SendFlags
	rq             recvQueue
	record         record
	register       *register
	bind           func(b *verbs.BindMW, hold bool) error
	binding        binding
	built          built
	state          verbs.QPState // written with both queues held
	ethernet       bool          // its port is an Ethernet port
	front          []byte        // start of the frame that is being posted
	maxTSOHeader   int
	plainFrames    bool            // post takes frames
	frameFlags     verbs.SendFlags // of those
	signal         uint32          // ctrlCompletion of every send
	smallFence     bool            // of the next send
	short          bool            // short messages come in completions
	maxInline      uint32
	streams        *streams                         // of a DCI, or nil
	whole          [maxBlockCopies * blockSize]byte // copy of a request that wraps around the end of the queue
}

// noIndex is the index to request if completions name QPs by their numbers.
const noIndex = 0xffffff

// CreateQP sets up everything before it asks the kernel, because completions name the QP by
// an index that the provider chooses.
func (c *mlx5Context) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if r.Type == verbs.QPTypeDCT {
		return c.createDCT(r)
	}
	size, err := c.sizes(r)
	if err != nil {
		return nil, err
	}
	if s := r.DCStreams; s.Concurrent > c.streams.Concurrent || s.Errored > c.streams.Errored {
		return nil, fmt.Errorf("%w: DCStreams of %d and %d, but the device has at most %d and %d", verbs.ErrNotSupported,
			s.Concurrent, s.Errored, c.streams.Concurrent, c.streams.Errored)
	}
	q, whole := c.newQP(r.Type)
	if r.DCStreams.Concurrent > 0 {
		q.streams = &streams{most: int(r.DCStreams.Errored), errored: make(map[uint16]bool)}
	}
	q.sendCQ, q.bind, q.maxInline = r.SendCQ.(*cq), r.Bind, size.cap.MaxInline
	q.recvCQ, _ = r.RecvCQ.(*cq)
	q.srq, _ = r.SRQ.(*srq)
	q.short = q.recvCQ != nil && q.recvCQ.short && (q.sendCQ.short || !r.SignalAll)
	if q.maxTSOHeader = int(r.MaxTSOHeader); r.Type == verbs.QPTypeRawPacket {
		if q.frameFlags = verbs.SendSignaled | verbs.SendSolicited; c.checksums {
			q.frameFlags |= verbs.SendIPCsum
		}
		q.front = make([]byte, max(ethernetHeader, q.maxTSOHeader))
	}
	if r.SignalAll {
		q.signal = ctrlCompletion
	}
	q.preparePlain()
	if err = q.create(r, &size); err != nil {
		q.drop()
		return nil, err
	}
	r.Cap = size.cap
	return whole, nil
}

// newQP returns a QP, and the same as a driver.QP whose type has the methods that build its Sends.
func (c *mlx5Context) newQP(t verbs.QPType) (q *qp, whole driver.QP) {
	switch {
	case t == verbs.QPTypeDCI:
		d := new(dci)
		q, whole = &d.qp, d
	case t == verbs.QPTypeRawPacket && c.frameHeader() == 0:
		f := new(frameQP)
		q, whole = &f.qp, f
		q.plainFrames = true
	default:
		q = new(qp)
		whole = q
	}
	q.ctx, q.typ, q.index = c, t, noIndex
	return q, whole
}

func (q *qp) create(r *driver.CreateQP, size *sizes) (err error) {
	c := q.ctx
	req := abi.Mlx5IbCreateQp{SqWqeCount: size.blocks, RqWqeCount: size.receives, Uidx: noIndex}
	if err := q.allocate(r, size, &req); err != nil {
		return err
	}
	if q.record, err = c.records.take(); err != nil {
		return err
	}
	req.DbAddr = q.record.addr
	if c.hasECE() {
		req.EceOptions = askECE
	}
	if q.short {
		req.Flags = abi.MLX5_QP_FLAG_SCATTER_CQE
	}
	if q.typ == verbs.QPTypeDCI {
		req.Flags |= abi.MLX5_QP_FLAG_TYPE_DCI
		if s := r.DCStreams; s.Concurrent > 0 {
			req.Flags |= abi.MLX5_QP_FLAG_DCI_STREAM
			req.DciStreams = abi.Mlx5IbCreateQpDciStreams{LogNumConcurent: log2(s.Concurrent), LogNumErrored: log2(s.Errored)}
		}
	}
	if size.receives > 0 {
		req.RqWqeShift = uint32(bits.TrailingZeros32(size.receiveSegs * segmentSize))
	}
	if c.registers.dynamic {
		if q.register, err = c.registers.take(c); err != nil {
			return err
		}
		req.Flags, req.BfregIndex = req.Flags|abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, q.register.uar
	}
	if c.indexed {
		if q.index, err = c.qps.Put(q); err != nil {
			return err
		}
		req.Uidx = q.index
	}
	var resp abi.Mlx5IbCreateQpResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	q.ece = ece{offered: c.hasECE(), options: resp.EceOptions}
	return q.adopt(r.Num, resp.BfregIndex)
}

// adopt checks and stores the QP's number and register, which the kernel chose.
func (q *qp) adopt(num, register uint32) error {
	c := q.ctx
	if q.num = num; num > cqeNumberMask {
		return fmt.Errorf("the kernel returned invalid QP number %#x", num)
	}
	if !c.registers.dynamic {
		if register >= uint32(len(c.registers.send)) || c.registers.send[register] == nil {
			return fmt.Errorf("the kernel chose invalid register %d of %d", register, len(c.registers.send))
		}
		q.register = c.registers.send[register]
	}
	if c.indexed {
		return nil
	}
	return c.qps.Set(num, q)
}

// allocate makes the queues' memory, with the sends after the receives. The queues of a raw
// packet QP are two objects of the device, in separate memory.
func (q *qp) allocate(r *driver.CreateQP, size *sizes, req *abi.Mlx5IbCreateQp) error {
	if q.typ != verbs.QPTypeRawPacket {
		buf, err := alloc(r, size.receiveBytes()+size.sendBytes(), &req.BufAddr)
		if err != nil {
			return err
		}
		return q.layOut(buf, buf, size.receiveBytes(), size)
	}
	receives, err := alloc(r, size.receiveBytes(), &req.BufAddr)
	if err != nil {
		return err
	}
	sends, err := alloc(r, size.sendBytes(), &req.SqBufAddr)
	if err != nil {
		return err
	}
	return q.layOut(receives, sends, 0, size)
}

// alloc allocates n bytes and stores their address. For 0 bytes it allocates nothing.
func alloc(r *driver.CreateQP, n int, addr *uint64) (*mmap.Region, error) {
	if n == 0 {
		return nil, nil
	}
	buf, err := r.Alloc(n, nil)
	if err != nil {
		return nil, err
	}
	*addr = buf.Addr()
	return buf, nil
}

func (q *qp) layOut(receives, sends *mmap.Region, at int, size *sizes) error {
	if size.receives > 0 {
		if err := q.rq.init(receives, size.receives, size.receiveSegs, size.cap.MaxRecvSGE); err != nil {
			return err
		}
	}
	if size.blocks == 0 {
		return nil
	}
	return q.sq.init(sends, at, size)
}

// drop gives back the QP's parts of its context.
func (q *qp) drop() {
	c := q.ctx
	if c.indexed {
		c.qps.Delete(q.index, q)
	} else {
		c.qps.Delete(q.num, q)
	}
	if q.record.page != nil {
		c.records.give(q.record)
	}
	if q.register != nil && c.registers.dynamic {
		c.registers.give(q.register)
	}
}

// Destroy implements driver.Destroyer. It calls the kernel first, because the device may
// write completions until do returns.
func (q *qp) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.drop()
	}
	return err
}

// Idle implements driver.Idler. The device flushes all work requests of the QP, but no
// receives of an SRQ.
func (q *qp) Idle() bool { return q.sq.isIdle() && q.rq.isEmpty() }

// Modify implements driver.QPModifier. It empties the queues of a QP that enters RESET.
func (q *qp) Modify(r *driver.ModifyQP) error {
	if q.typ == verbs.QPTypeUD && r.Mask&verbs.QPAttrPort != 0 {
		ethernet, err := q.ctx.ethernet(r.Attr.Port)
		if err != nil {
			return err
		}
		q.ethernet = ethernet
	}
	if err := q.modify(r); err != nil {
		return err
	}
	q.state = r.To
	switch {
	case r.To == verbs.QPStateRTR && q.typ == verbs.QPTypeRawPacket:
		q.record.set(recvWord, q.rq.head&indexMask)
	case r.To == verbs.QPStateReset:
		q.sq.reset()
		q.rq.reset()
		q.smallFence = false
		q.streams.reset()
		q.record.set(recvWord, 0)
		q.record.set(sendWord, 0)
	}
	return nil
}

// sizes holds the sizes of a QP's queues. User space chooses them.
type sizes struct {
	cap         verbs.QPCap // as granted
	receives    uint32      // entries, a power of two or 0
	receiveSegs uint32      // of an entry
	blocks      uint32      // of the send queue, a power of two or 0
}

func (s *sizes) receiveBytes() int { return int(s.receives) * int(s.receiveSegs) * segmentSize }
func (s *sizes) sendBytes() int    { return int(s.blocks) * blockSize }

// Bytes of a send before its data: the first segment, and the largest addition of any
// operation, which on RC and UC is the binding of a window, and on UD the address.
const (
	bindOverhead = 16 + 48 + 64 + 64
	udOverhead   = 16 + 48
	xrcOverhead  = bindOverhead + 16
	dciOverhead  = bindOverhead + 48
	rawOverhead  = 16 + 32
)

func overhead(t verbs.QPType) uint32 {
	switch t {
	case verbs.QPTypeUD:
		return udOverhead
	case verbs.QPTypeXRCInitiator:
		return xrcOverhead
	case verbs.QPTypeDCI:
		return dciOverhead
	case verbs.QPTypeRawPacket:
		return rawOverhead
	}
	return bindOverhead
}

// sizes computes the sizes as rdma-core does. The QP is granted the room that rounding up
// adds.
func (c *mlx5Context) sizes(r *driver.CreateQP) (s sizes, err error) {
	switch r.Type {
	case verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator, verbs.QPTypeRawPacket, verbs.QPTypeDCI:
	default:
		return s, fmt.Errorf("%w: this mlx5 provider supports only RC, UC, UD, XRC, DC and raw packet QPs", verbs.ErrNotSupported)
	}
	s.cap = r.Cap
	if err := c.sendSizes(&s, overhead(r.Type), align(r.MaxTSOHeader, segmentSize)); err != nil {
		return s, err
	}
	return s, c.receiveSizes(&s, r.SRQ != nil)
}

// sendSizes computes the sizes of the send queue. A request has SGEs and headers, or inline data.
func (c *mlx5Context) sendSizes(s *sizes, overhead, headers uint32) error {
	want, most := &s.cap, uint32(c.limits.MaxSqDescSz)
	if want.MaxSendWR == 0 {
		return nil
	}
	if want.MaxSendSGE > most/segmentSize || want.MaxInline > most || headers > most {
		return tooLarge("sends", most)
	}
	size := overhead + headers + want.MaxSendSGE*segmentSize
	if want.MaxInline > 0 {
		size = max(size, overhead+align(inlineHeader+want.MaxInline, segmentSize))
	}
	if size = align(size, blockSize); size > most {
		return tooLarge("sends", most)
	}
	bytes := uint64(want.MaxSendWR) * uint64(size)
	if bytes > uint64(c.limits.MaxSendWqebb)*blockSize {
		return fmt.Errorf("%w: %d sends of %d bytes, but the device's queues have at most %d blocks of %d bytes",
			verbs.ErrNotSupported, want.MaxSendWR, size, c.limits.MaxSendWqebb, blockSize)
	}
	ring := pow2(uint32(bytes))
	if s.blocks = ring / blockSize; s.blocks > c.limits.MaxSendWqebb {
		return fmt.Errorf("%w: a send queue of %d blocks, but the device's have at most %d", verbs.ErrNotSupported, s.blocks, c.limits.MaxSendWqebb)
	}
	want.MaxSendWR, want.MaxInline = ring/size, 0
	if size > overhead { // by at least a segment; rdma-core's result is negative otherwise
		want.MaxInline = size - overhead - inlineHeader
	}
	return nil
}

func (c *mlx5Context) receiveSizes(s *sizes, shared bool) error {
	want, most := &s.cap, uint32(c.limits.MaxRqDescSz)
	if want.MaxRecvWR > c.limits.MaxRecvWr { // for an SRQ, too, as in the kernel
		return fmt.Errorf("%w: %d receives, but the device's queues have at most %d", verbs.ErrNotSupported, want.MaxRecvWR, c.limits.MaxRecvWr)
	}
	if shared || want.MaxRecvWR == 0 {
		want.MaxRecvWR, want.MaxRecvSGE = 0, 0
		return nil
	}
	if want.MaxRecvSGE > most/segmentSize {
		return tooLarge("receives", most)
	}
	s.receiveSegs = pow2(max(want.MaxRecvSGE, 1))
	s.receives = max(pow2(want.MaxRecvWR), blockSize/segmentSize/min(s.receiveSegs, blockSize/segmentSize))
	want.MaxRecvWR, want.MaxRecvSGE = s.receives, s.receiveSegs
	return nil
}

func tooLarge(what string, most uint32) error {
	return fmt.Errorf("%w: the device's %s have at most %d bytes, with all SGEs and inline data", verbs.ErrNotSupported, what, most)
}
