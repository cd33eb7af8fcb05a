package erdma

import (
	"fmt"
	"math"

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
	failed         bool // later posts are not passed to the device; written with both queues held
	flushed        driver.Flushed
}

// CreateQP lays out the queues as the kernel does: four blocks for each send, then the
// receives on the next page.
func (c *erdmaContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if r.Type != verbs.QPTypeRC || r.SRQ != nil {
		return nil, fmt.Errorf("%w: erdma has RC QPs with receive queues of their own", verbs.ErrNotSupported)
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
	q := &qp{ctx: c, num: resp.QpId, sendCQ: r.SendCQ.(*cq), recvCQ: r.RecvCQ.(*cq), record: rec}
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
		return fmt.Errorf("erdma: the kernel says that QP %d is %d to the device, which can't be", r.Num, resp.QpId)
	}
	if resp.NumSqe > 1<<15 || resp.NumRqe > 1<<15 || resp.RqOffset > math.MaxInt32 || resp.NumSqe < maxBlocks {
		return fmt.Errorf("erdma: the kernel offers queues of %d and %d entries, the second at %#x, which can't be",
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

// Destroy implements driver.Destroyer. Later completions match no QP.
func (q *qp) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.qps.Delete(q.num, q)
		q.ctx.records.give(q.record)
	}
	return err
}
