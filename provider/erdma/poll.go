package erdma

import "github.com/goverbs/goverbs/verbs"

// Poll reads completions. It skips those that match no work request.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	odd := verbs.StatusSuccess
	for n < len(wcs) {
		ready := q.ring.Ready(len(wcs) - n)
		if ready == 0 {
			break
		}
		for i := range ready {
			if q.complete(q.ring.At(i), &wcs[n]) {
				odd |= wcs[n].Status
				n++
			}
		}
		q.ring.Release(ready)
	}
	return n, odd != verbs.StatusSuccess, nil
}

// complete reads an entry, each field once, and finds its work request. It reports whether
// there is one: the QP may be gone, and the device is not trusted.
func (q *cq) complete(e *cqe, wc *verbs.WC) bool {
	hdr, index, num := be32(e.hdr), be32(e.index), be32(e.qpn)
	p := q.ctx.qps.Get(num)
	if p == nil {
		return false
	}
	id, ok := uint64(0), false
	switch queue := uint8(hdr >> 8); {
	case queue == ofSends && p.sendCQ == q:
		id, ok = p.sq.complete(index)
	case queue == ofReceives && p.recvCQ == q:
		id, ok = p.rq.complete(index)
	}
	if !ok {
		return false
	}
	*wc = verbs.WC{WRID: id, QPN: num}
	if syndrome := uint8(hdr); syndrome != 0 {
		wc.Status, wc.VendorErr = statusOf(syndrome)
		return true
	}
	op := uint8(hdr >> 16)
	wc.Opcode, wc.ByteLen = wcOpcodes[op], be32(e.size)
	switch op {
	case opRecvImm, opRspSendImm:
		wc.Imm, wc.Flags = e.imm, verbs.WCWithImm
	case opRecvInv:
		wc.Imm, wc.Flags = be32(e.imm), verbs.WCWithInv
	}
	return true
}
