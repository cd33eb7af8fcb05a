package erdma

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// qp holds a QP's two queues, which follow each other in memory of this process.
type qp struct {
	ctx            *erdmaContext
	num            uint32
	sendCQ, recvCQ *cq
	sq             sendQueue
	rq             recvQueue
	record         record
	sdb, rdb       int    // offsets of the doorbells in their pages
	flags          uint64 // of every send
	maxSGE         int
	maxRecvSGE     int
	state          verbs.QPState // RTS if only the kernel knows it; written with both queues held
	failed         bool          // later posts are not passed to the device; written with both queues held
	flushed        driver.Flushed
}

// CreateQP lays out the queues as the kernel does: four blocks for each send, then the
// receives on the next page.
func (c *erdmaContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	switch {
	case r.Type == verbs.QPTypeUD && c.roce:
		return nil, fmt.Errorf("%w: the kernel's erdma driver has no address handles for user space, which UD QPs need to send", verbs.ErrNotSupported)
	case r.Type != verbs.QPTypeRC || r.SRQ != nil:
		return nil, fmt.Errorf("%w: erdma supports only RC QPs with their own receive queues", verbs.ErrNotSupported)
	}
	r.Cap.MaxSendWR, r.Cap.MaxRecvWR = max(r.Cap.MaxSendWR, 1), max(r.Cap.MaxRecvWR, 1) // the kernel has no QP without
	if r.Cap.MaxSendWR > mostWR || r.Cap.MaxRecvWR > mostWR {
		return nil, fmt.Errorf("%w: erdma's queues have room for at most %d work requests", verbs.ErrNotSupported, mostWR)
	}
	sqe, rqe := pow2(r.Cap.MaxSendWR*maxBlocks), pow2(r.Cap.MaxRecvWR)
	buf, err := r.Alloc(aligned(sqe)+aligned(rqe), nil)
	if err != nil {
		return nil, err
	}
	rec, err := c.records.take()
	if err != nil {
		return nil, err
	}
	req := abi.ErdmaUreqCreateQp{DbRecordVa: rec.addr, QbufVa: buf.Addr(), QbufLen: uint32(aligned(sqe) + aligned(rqe))}
	var resp abi.ErdmaUrespCreateQp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		c.records.give(rec)
		return nil, err
	}
	q := &qp{ctx: c, num: resp.QpId, sendCQ: r.SendCQ.(*cq), recvCQ: r.RecvCQ.(*cq), record: rec, state: verbs.QPStateRTS}
	if c.roce {
		q.state = verbs.QPStateReset
	}
	if err := q.adopt(r, buf, &resp); err != nil {
		return nil, err
	}
	return q, c.qps.Set(q.num, q)
}

// maxQPN is the largest QP number that the headers of sends have room for.
const maxQPN = 1<<20 - 1

// mostWR is the largest number of sends for which 16 bits of index suffice.
const mostWR = 8192

// aligned returns the number of bytes that n blocks take, with padding.
func aligned(n uint32) int { return (int(n)*blockSize + queueAlign - 1) &^ (queueAlign - 1) }

// adopt checks and stores the kernel's answer.
func (q *qp) adopt(r *driver.CreateQP, buf *mmap.Region, resp *abi.ErdmaUrespCreateQp) error {
	if resp.QpId != r.Num || resp.QpId > maxQPN {
		return fmt.Errorf("the kernel returned invalid number %[2]d for QP %[1]d", r.Num, resp.QpId)
	}
	if resp.NumSqe > 1<<15 || resp.NumRqe > 1<<15 || resp.RqOffset > math.MaxInt32 || resp.NumSqe < maxBlocks {
		return fmt.Errorf("the kernel returned invalid queues of %d and %d entries, the second at offset %#x",
			resp.NumSqe, resp.NumRqe, resp.RqOffset)
	}
	if err := q.sq.init(buf, 0, resp.NumSqe); err != nil {
		return err
	}
	if err := q.rq.init(buf, int(resp.RqOffset), resp.NumRqe); err != nil {
		return err
	}
	q.sdb, q.rdb = int(q.ctx.sendDoorbell(q.num)), recvDoorbell(q.num)
	if r.SignalAll {
		q.flags = hdrSignaled
	}
	q.flags |= uint64(q.num) << hdrQPNShift
	r.Cap.MaxSendWR, r.Cap.MaxRecvWR, r.Cap.MaxInline = resp.NumSqe/maxBlocks, resp.NumRqe, maxInline
	r.Cap.MaxSendSGE, r.Cap.MaxRecvSGE = min(r.Cap.MaxSendSGE, maxSGE), min(r.Cap.MaxRecvSGE, 1)
	q.maxSGE, q.maxRecvSGE = int(r.Cap.MaxSendSGE), int(r.Cap.MaxRecvSGE)
	return nil
}

// Modify implements driver.QPModifier. On RoCE a move to RESET empties the queues, as the kernel's
// driver does with QPs of its own. On iWARP it has no effect: the device knows of no RESET.
func (q *qp) Modify(r *driver.ModifyQP) error {
	if err := r.Do(driver.UHW{}); err != nil || !q.ctx.roce {
		return err
	}
	if q.state = r.To; r.To == verbs.QPStateReset {
		q.sq.reset()
		q.rq.reset()
		for _, word := range q.record.word {
			word.Store(0)
		}
		q.failed, q.flushed = false, driver.Flushed{}
	}
	return nil
}

// Destroy implements driver.Destroyer. Later completions match no QP.
func (q *qp) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.qps.Delete(q.num, q)
		q.ctx.records.give(q.record)
	}
	return err
}

// Flush returns the completions of work requests that were posted after the kernel stopped
// the QP. The device completes those that it was notified of before, and would complete no
// others, so it is not notified of later ones. Their completions may overtake the device's.
func (q *qp) Flush() driver.Flushed {
	q.failed = true
	f := q.flushed
	q.flushed = driver.Flushed{}
	return f
}

func (q *qp) flush(id uint64, op verbs.WCOpcode) verbs.WC {
	return verbs.WC{WRID: id, Opcode: op, QPN: q.num, Status: verbs.StatusWRFlushErr}
}

// Idle implements driver.Idler.
func (q *qp) Idle() bool { return q.failed && q.sq.isIdle() && q.rq.empty() }

// RecvEmpty implements driver.RecvEmptier.
func (q *qp) RecvEmpty() bool { return q.rq.empty() }

// queue is a send or a receive queue, in blocks. The side that posts and the side that
// polls hold different locks, so each publishes its progress in an atomic counter. A work
// request's entry of wrs belongs to the poller from the time that produced has passed it
// until consumed has.
type queue struct {
	blocks   mmap.Array[block]
	depth    uint32 // blocks, a power of two
	wrs      []wr
	produced atomic.Uint32 // free-running, as is the next
	consumed atomic.Uint32
}

// wr describes the work request that begins at a block. The field blocks is 0 if none
// begins there.
type wr struct {
	id     uint64
	blocks uint32
}

func (q *queue) init(memory *mmap.Region, offset int, depth uint32) (err error) {
	q.blocks, err = mmap.NewArray[block](memory, offset, depth)
	q.depth, q.wrs = depth, make([]wr, depth)
	return err
}

// reset empties the queue. Its blocks keep their content, as those of a new queue may have any.
func (q *queue) reset() {
	q.produced.Store(0)
	q.consumed.Store(0)
}

// room returns the number of free blocks if the queue's producer index is pi.
func (q *queue) room(pi uint32) uint32 { return q.depth - (pi - q.consumed.Load()) }

// note records the work request at pi.
func (q *queue) note(pi uint32, id uint64, blocks uint32) {
	q.wrs[pi&(q.depth-1)] = wr{id, blocks}
	for i := uint32(1); i < blocks; i++ {
		q.wrs[(pi+i)&(q.depth-1)].blocks = 0
	}
}

// publish hands the work requests before pi to the poller. It must precede the doorbell.
func (q *queue) publish(pi uint32) { mmap.StoreRelease(&q.produced, pi) }

// empty reports whether all work requests have completed.
func (q *queue) empty() bool { return q.produced.Load() == q.consumed.Load() }

// isIdle reports whether no signaled send is outstanding. The unsignaled sends that follow
// the last signaled one may have succeeded without a completion, so nothing is known of
// them.
func (q *sendQueue) isIdle() bool {
	for at, end := q.consumed.Load(), q.produced.Load(); at != end; at++ {
		if q.wrs[at&(q.depth-1)].blocks > 0 && q.blocks.At(at)[0]&hdrSignaled != 0 {
			return false
		}
	}
	return true
}

// sendQueue is a send queue. A completion may be any distance ahead: it also completes the
// unsignaled sends before it.
type sendQueue struct{ queue }

// complete frees all blocks up to the end of the work request that begins at index, and
// returns its WRID. Only 16 bits of index are valid. ok is false if no outstanding work
// request begins there.
func (q *sendQueue) complete(index uint32) (id uint64, ok bool) {
	ci := q.consumed.Load()
	ahead := uint32(uint16(index) - uint16(ci))
	if ahead >= q.produced.Load()-ci {
		return 0, false
	}
	w := &q.wrs[(ci+ahead)&(q.depth-1)]
	if w.blocks == 0 {
		return 0, false
	}
	id = w.id
	mmap.StoreRelease(&q.consumed, ci+ahead+w.blocks)
	return id, true
}

// recvQueue is a receive queue. It completes in order.
type recvQueue struct{ queue }

// complete frees the oldest receive, which must be the one at index.
func (q *recvQueue) complete(index uint32) (id uint64, ok bool) {
	ci := q.consumed.Load()
	if ci == q.produced.Load() || (index-ci)&(q.depth-1) != 0 {
		return 0, false
	}
	id = q.wrs[ci&(q.depth-1)].id
	mmap.StoreRelease(&q.consumed, ci+1)
	return id, true
}
