package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

var errLost = fmt.Errorf("%w: the queue was lost when it was resized, close what it belongs to", verbs.ErrClosed)

// Poll reads completions. It skips those that match no work request.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	if q.lost {
		return 0, false, errLost
	}
	ready := q.ready(len(wcs))
	if ready == 0 {
		return 0, false, nil
	}
	if n = q.sent(wcs[:ready]); n < ready {
		n, bad = q.mixed(wcs, n, ready-n)
	}
	q.consumed()
	return n, bad, nil
}

// mixed reads entries of all kinds into wcs from n on. ready of them are ready; if none of
// those matches a work request, mixed looks for more.
func (q *cq) mixed(wcs []verbs.WC, n, ready int) (all int, bad bool) {
	for odd := verbs.StatusSuccess; ; ready = q.ready(len(wcs)) {
		for end := q.ci + uint32(ready); q.ci != end; {
			if sent := q.sent(wcs[n:][:end-q.ci]); sent > 0 {
				n += sent
				continue
			}
			if q.complete(q.ci, &wcs[n]) {
				odd |= wcs[n].Status
				n++
			}
			q.ci++
		}
		if n > 0 || ready == 0 {
			return n, odd != verbs.StatusSuccess
		}
	}
}

// sent reads successful sends and writes of one QP, up to the first other entry. It is a
// fast path of complete for the most frequent completions.
func (q *cq) sent(wcs []verbs.WC) (n int) {
	if !q.ctx.indexed {
		return 0
	}
	at := q.slot(q.ci)
	queue := q.ring.At(at).queue
	p := q.ctx.qps.Get(be32(queue) & cqeNumberMask)
	if p == nil || p.sendCQ != q || p.sq.blocks == 0 {
		return 0
	}
	s, number := &p.sq, p.num
	done, produced := s.completed.Load(), s.produced.Load()
	for n < len(wcs) {
		e := q.ring.At(at)
		last := e.counterOwn.Load()
		w := &s.sent[uint32(be16(uint16(last)))&(s.blocks-1)]
		if last>>cqeOpShift != cqeRequest || e.queue != queue || w.number-done >= produced-done || w.op > verbs.WCRDMAWrite {
			break
		}
		wcs[n] = verbs.WC{WRID: w.id, Opcode: w.op, QPN: number}
		done = w.number + 1
		n++
		at += q.step
	}
	if n > 0 {
		mmap.StoreRelease(&s.completed, done)
		q.ci += uint32(n)
	}
	return n
}

// consumed updates the record of how far the queue was read.
func (q *cq) consumed() {
	q.record.set(consumedWord, q.ci&armConsumed)
	q.peek.Hide()
}

// Peek implements driver.Peeker.
func (q *cq) Peek() *mmap.Peek { return &q.peek }

// ready returns the number of entries that can be read, at most want.
func (q *cq) ready(want int) (n int) {
	at, i := q.slot(q.ci), q.ci
	for most := min(want, int(q.entries)); n < most; n++ {
		word := &q.ring.At(at).counterOwn
		if v := word.Load(); !q.owned(v, i) {
			if n == 0 {
				q.peek.Expect(word, v)
				return 0
			}
			break
		}
		i++
		at += q.step
	}
	if n > 0 {
		mmap.FromDevice()
	}
	return n
}

// owned reports whether the device has written an entry, given its last word and its
// free-running index. The owner bit alternates with each lap, and is 0 in the first.
func (q *cq) owned(last, i uint32) bool {
	return last>>cqeOpShift != cqeNothing && last&cqeOwner != 0 == (i&q.entries != 0)
}

// complete reads an entry, each field once, and finds its work request. It reports whether
// there is one: the QP may be gone, and the device is not trusted.
func (q *cq) complete(i uint32, wc *verbs.WC) bool {
	e := q.at(i)
	last := e.counterOwn.Load()
	op, index := last>>cqeOpShift, be16(uint16(last))
	p, s := q.ctx.find(e, op)
	if p == nil {
		return false
	}
	*wc = verbs.WC{QPN: p.num}
	if p.typ == verbs.QPTypeXRCTarget {
		wc.QPN = be32(e.opQPN) & cqeNumberMask
	}
	data := q.message(i, last)
	switch op {
	case cqeRequest:
		return p.sendCQ == q && p.sq.complete(q.ctx, index, be32(e.byteCount), data, wc)
	case cqeReqError:
		return p.sendCQ == q && p.sq.complete(q.ctx, index, 0, nil, wc) && e.fail(wc)
	case cqeWriteImm, cqeRecv, cqeRecvImm, cqeRecvInv:
		return p.recvCQ == q && p.received(s, index, data, wc) && p.describe(e, op, wc)
	case cqeRespError:
		return p.recvCQ == q && p.received(s, index, nil, wc) && e.fail(wc)
	}
	return false
}

// find finds the QP of a completion, and the SRQ that a receive came from, if any.
func (c *mlx5Context) find(e *cqe, op uint32) (*qp, *srq) {
	number := be32(e.queue) & cqeNumberMask
	if c.indexed {
		p := c.qps.Get(number)
		if p == nil {
			return nil, nil
		}
		return p, p.srq
	}
	p := c.qps.Get(be32(e.opQPN) & cqeNumberMask)
	if op == cqeRequest || op == cqeReqError || number == 0 {
		return p, nil
	}
	s := c.srqs.Get(number)
	if s != nil && s.target != nil {
		p = s.target
	}
	return p, s
}

// fail fills in a completion with an error. It returns true, as complete does.
func (e *cqe) fail(wc *verbs.WC) bool {
	*wc = verbs.WC{WRID: wc.WRID, QPN: wc.QPN, Status: statusOf(e.syndrome), VendorErr: uint32(e.vendor)}
	return true
}

// describe fills in the completion of a receive. It returns true, as complete does.
func (q *qp) describe(e *cqe, op uint32, wc *verbs.WC) bool {
	if wc.Status != verbs.StatusSuccess {
		return true
	}
	wc.Opcode, wc.ByteLen = verbs.WCRecv, be32(e.byteCount)
	switch op {
	case cqeWriteImm:
		wc.Opcode, wc.Imm, wc.Flags = verbs.WCRecvRDMAWithImm, be32(e.imm), verbs.WCWithImm
	case cqeRecvImm:
		wc.Imm, wc.Flags = be32(e.imm), verbs.WCWithImm
	case cqeRecvInv:
		wc.Imm, wc.Flags = be32(e.imm), verbs.WCWithInv
		q.ctx.device.Unbind(wc.Imm)
	}
	if q.typ != verbs.QPTypeUD {
		return q.typ != verbs.QPTypeRawPacket || e.describeFrame(wc)
	}
	from := be32(e.flagsQPN)
	wc.SrcQP, wc.SL = from&cqeNumberMask, uint8(from>>24&0xf)
	if from>>28&3 != 0 {
		wc.Flags |= verbs.WCGRH
	}
	if !q.ethernet {
		wc.SLID, wc.DLIDPathBits = be16(e.slid), e.path&0x7f
	}
	return true
}
