package efa

import (
	"fmt"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// cqe is a completion. In those of sends on CQs with wide ids, the fields from short to source hold
// bits 16 to 63 of the request's id.
type cqe struct {
	first      atomic.Uint32 // id, status, flags
	qpn        uint16
	short      uint16 // low bits of the message's length
	ah, source uint16 // of the sender
	imm        uint32
	tail       [16]uint8 // the sender's GID, or the high bits of a write's length
}

// high returns bits 16 to 63 of the id of a send's request.
func (e *cqe) high() uint64 {
	return uint64(e.short)<<16 | uint64(e.ah)<<32 | uint64(e.source)<<48
}

// cq is a completion queue. The device may have several rings for it.
type cq struct {
	ctx      *efaContext
	rings    []ring
	last     int    // the ring that was read last
	entries  uint32 // of a ring, a power of two
	consumed uint32 // of all rings, free-running
	events   uint32 // that were read from the channel, modulo 4, where the doorbell has them
	doorbell doorbell
	strange  bool // completions have the GIDs of unknown senders
	wide     bool // those of sends have ids of 64 bits
	peek     mmap.Peek
}

// ring is a part of a CQ. The phase bit of its entries changes with each lap, and is 1 in the first.
type ring struct {
	entries mmap.Array[cqe]
	ci      uint32 // free-running
}

// CreateCQ creates a CQ. The kernel does not round its size, and the device needs a power of two.
func (c *efaContext) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	switch {
	case r.CQE > mostCQE:
		return nil, fmt.Errorf("%w: a CQ of %d entries, devices have at most %d", verbs.ErrNotSupported, r.CQE, uint32(mostCQE))
	case r.Ext&^verbs.WCExtSourceGID != 0, r.Ext != 0 && !c.has(abi.EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID):
		return nil, fmt.Errorf("%w: of the extended completions EFA has only WCExtSourceGID, and not all devices do", verbs.ErrNotSupported)
	case r.HasChannel && !c.has(abi.EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS):
		return nil, fmt.Errorf("%w: this EFA device has no completion events: create the CQ without a channel", verbs.ErrNotSupported)
	}
	r.CQE = pow2(max(r.CQE, 1))
	req := abi.EfaIbvCreateCq{CqEntrySize: cqeSize, NumSubCqs: c.limits.SubCqsPerCq}
	if r.HasChannel {
		req.Flags |= abi.EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL
	}
	if r.Ext != 0 {
		req.Flags |= abi.EFA_CREATE_CQ_WITH_SGID
	}
	if c.wideIDs() {
		req.Flags |= abi.EFA_CREATE_CQ_WITH_SQ_COMP_64_BIT_REQ_ID
	}
	q := &cq{ctx: c, entries: r.CQE, strange: r.Ext != 0, wide: c.wideIDs(), rings: make([]ring, req.NumSubCqs)}
	q.peek.Hide()
	var resp abi.EfaIbvCreateCqResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	r.CQE = q.entries
	return q, q.adopt(r, &resp)
}

// adopt checks the kernel's answer and maps the rings, which follow each other.
func (q *cq) adopt(r *driver.CreateCQ, resp *abi.EfaIbvCreateCqResp) error {
	page, one := r.PageSize(), uint64(q.entries)*cqeSize
	if size := one * uint64(len(q.rings)); resp.QMmapSize < size || resp.QMmapSize > roundUp(size, page) {
		return fmt.Errorf("the kernel returned a CQ of %d bytes in place of %d", resp.QMmapSize, size)
	}
	memory, err := r.Map(int64(resp.QMmapKey), int(resp.QMmapSize), mmap.ProtRead)
	if err != nil {
		return err
	}
	for i := range q.rings {
		if q.rings[i].entries, err = mmap.NewArray[cqe](memory, i*int(one), q.entries); err != nil {
			return err
		}
	}
	if resp.CompMask&abi.EFA_CREATE_CQ_RESP_DB_OFF != 0 {
		q.doorbell, err = mapDoorbell(r, resp.DbMmapKey, resp.DbOff)
		return err
	}
	if r.HasChannel {
		return fmt.Errorf("the kernel returned no doorbell of a CQ with a channel")
	}
	return nil
}

// Arm requests an event at the next completion. EFA has no solicited ones.
func (q *cq) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return fmt.Errorf("%w: EFA has no solicited events", verbs.ErrNotSupported)
	}
	q.ring(cqArm)
	return nil
}

// ring stores how many completions were taken off.
func (q *cq) ring(arm uint32) {
	if q.doorbell.page != nil {
		q.doorbell.page.Store32(q.doorbell.offset, arm|q.word())
	}
}

// word returns the doorbell's value that does not arm the CQ.
func (q *cq) word() uint32 { return q.events | q.consumed&cqConsumed }

// Event implements driver.EventCounter.
func (q *cq) Event() { q.events = (q.events + 1<<cqSNShift) & (3 << cqSNShift) }

// Peek implements driver.Peeker. It stays hidden on a CQ of several rings.
func (q *cq) Peek() *mmap.Peek { return &q.peek }

// Poll reads completions. It skips those that match no work request. It reads those of successful sends and
// receives, the most frequent ones, by itself if the device has one ring for them.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	if len(q.rings) != 1 || len(wcs) == 0 {
		return q.PollExt(wcs, nil)
	}
	r := &q.rings[0]
	e, ready := r.entries.At(r.ci), 1
	v := e.first.Load()
	if !q.owned(v, r.ci) {
		q.peek.Expect(&e.first, v)
		return 0, false, nil
	}
	if len(wcs) > 1 {
		ready = q.count(len(wcs))
	}
	mmap.FromDevice()
	qpn := e.qpn
	work := q.plain(e, v, qpn, &wcs[0])
	if work == nil {
		return q.PollExt(wcs, nil)
	}
	n = 1
	if ready > 1 {
		n = q.alike(wcs[:ready], work, v, qpn)
	}
	q.rings[0].ci += uint32(n)
	q.consumed += uint32(n)
	if n < ready {
		more, bad, err := q.PollExt(wcs[n:], nil)
		return n + more, bad, err
	}
	q.peek.Clear()
	if page := q.doorbell.page; page != nil {
		page.Store32(q.doorbell.offset, q.word())
	}
	return n, false, nil
}

// alike reads the entries after the first as long as they are plain, and returns their number with the first. The first
// has completed a request of work, of queue pair qpn. An entry that differs from the one before it in the request's id
// only needs no check but that of the id.
func (q *cq) alike(wcs []verbs.WC, work *pool, first uint32, qpn uint16) (n int) {
	r := &q.rings[0]
	entries, ci := r.entries, r.ci
	places, given := work.places, work.given.Load()
	for n = 1; n < len(wcs); n++ {
		e := entries.At(ci + uint32(n))
		next, to := e.first.Load(), e.qpn
		if (next^first)&^(idLow|cqePhase) != 0 || to != qpn {
			mmap.StoreRelease(&work.given, given)
			other := q.plain(e, next, to, &wcs[n])
			if other == nil {
				return n
			}
			work, first, qpn = other, next, to
			places, given = work.places, work.given.Load()
			continue
		}
		id, wc := uint64(next&idLow), &wcs[n]
		*wc = wcs[n-1] // has the same QP and opcode
		if next&cqeKind == ofReceives<<cqeQueueShift {
			wc.ByteLen, wc.SLID, wc.SrcQPN = uint32(e.short), e.ah, uint32(e.source)
		} else if q.wide {
			id |= e.high()
		}
		i := id ^ work.generation
		if i >= uint64(len(places)) {
			break
		}
		w := &places[i]
		if w.outstanding.Load() == 0 {
			break
		}
		wc.WRID = w.id
		mmap.StoreRelease(&w.outstanding, 0)
		places[int(given)&(len(places)-1)].free = uint32(i)
		given++
	}
	mmap.StoreRelease(&work.given, given)
	return n
}

// plain completes a request if an entry, whose first fields are given, is of a successful send, or of a successful
// receive of a message without immediate data. It returns the pool of the request. Otherwise it returns nil.
func (q *cq) plain(e *cqe, first uint32, qpn uint16, wc *verbs.WC) (work *pool) {
	p := q.ctx.qps.Get(uint32(qpn))
	if p == nil {
		return nil
	}
	*wc = verbs.WC{QPN: uint32(qpn)}
	id := uint64(first & idLow)
	if kind := first & cqeKind; kind == ofSends<<cqeQueueShift && p.sendCQ == q {
		work = p.sq.work.Load()
		if q.wide {
			id |= e.high()
		}
		wc.Opcode = sent[first&cqeOp>>cqeOpShift]
	} else if kind == ofReceives<<cqeQueueShift && p.recvCQ == q && first&(cqeImm|cqeOp) == opSend<<cqeOpShift {
		work = p.rq.work.Load()
		wc.Opcode, wc.ByteLen, wc.SLID, wc.SrcQPN = verbs.WCRecv, uint32(e.short), e.ah, uint32(e.source)
	} else {
		return nil
	}
	i, places := id^work.generation, work.places
	if i >= uint64(len(places)) {
		return nil
	}
	w := &places[i]
	if w.outstanding.Load() == 0 {
		return nil
	}
	wc.WRID = w.id
	work.give(places, w, i)
	return work
}

// owned reports whether the device has written an entry, given its first word and its free-running index.
func (q *cq) owned(first, i uint32) bool { return first&cqePhase != 0 == (i&q.entries == 0) }

// count returns the number of entries of the first ring that can be read after a load barrier, at most want. The caller
// has checked the first of them.
func (q *cq) count(want int) (n int) {
	r := &q.rings[0]
	entries, ci := r.entries, r.ci
	want = min(want, int(q.entries))
	for n = 1; n < want; n++ {
		ci++
		if !q.owned(entries.At(ci).first.Load(), ci) {
			break
		}
	}
	return n
}

// PollExt implements driver.ExtPoller.
func (q *cq) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error) {
	before := q.consumed
	// A device that fills the rings with completions of no work request is left in the end.
	for idle, most := 0, q.entries; n < len(wcs) && idle < len(q.rings) && q.consumed-before <= most; idle++ {
		r := &q.rings[q.last]
		ready := q.ready(r, len(wcs)-n)
		entries, ci := r.entries, r.ci
		r.ci += uint32(ready)
		for end := r.ci; ci != end; ci++ {
			e, wc := entries.At(ci), &wcs[n]
			if !q.complete(e, wc) {
				continue
			}
			bad = bad || wc.Status != verbs.StatusSuccess
			if ext != nil {
				ext[n] = verbs.WCExt{SourceGID: q.sender(e, wc)}
			}
			n++
		}
		if q.consumed += uint32(ready); ready > 0 {
			idle = -1
		}
		if q.last++; q.last == len(q.rings) {
			q.last = 0
		}
	}
	if q.consumed != before {
		q.peek.Clear()
		q.ring(0)
	}
	return n, bad, nil
}

// ready returns the number of a ring's entries that can be read, at most want.
func (q *cq) ready(r *ring, want int) (n int) {
	entries, ci := r.entries, r.ci
	for want = min(want, int(q.entries)); n < want; n, ci = n+1, ci+1 {
		word := &entries.At(ci).first
		v := word.Load()
		if !q.owned(v, ci) {
			if n == 0 && len(q.rings) == 1 {
				q.peek.Expect(word, v)
			}
			break
		}
	}
	if n > 0 {
		mmap.FromDevice()
	}
	return n
}

// complete reads an entry, each field once, and finds its work request. It reports whether there is
// one: the QP may be gone, and the device is not trusted.
func (q *cq) complete(e *cqe, wc *verbs.WC) bool {
	first, qpn := e.first.Load(), uint32(e.qpn)
	p := q.ctx.qps.Get(qpn)
	if p == nil {
		return false
	}
	flags := uint8(first >> cqeFlagShift)
	status, op := uint8(first>>16), flags>>4&7
	*wc = verbs.WC{QPN: qpn}
	switch queue := flags >> 1 & 3; {
	case queue == ofSends && p.sendCQ == q:
		id := uint64(first & idLow)
		if q.wide {
			id |= e.high()
		}
		if !p.sq.work.Load().complete(id, wc) {
			return false
		}
		wc.Opcode = sent[op]
	case queue == ofReceives && p.recvCQ == q:
		if first&cqeStranger != 0 {
			if !p.unsolicited {
				return false
			}
		} else {
			if !p.rq.work.Load().complete(uint64(first&idLow), wc) {
				return false
			}
		}
		wc.Opcode = received[op]
		wc.ByteLen, wc.SLID, wc.SrcQPN = uint32(e.short), e.ah, uint32(e.source)
		if first&cqeImm != 0 {
			wc.Imm, wc.Flags = e.imm, verbs.WCWithImm
		}
		if op == opWrite && !q.isGID(wc.SLID) {
			wc.ByteLen |= uint32(e.tail[0])<<16 | uint32(e.tail[1])<<24
		}
	default:
		return false
	}
	if status != 0 {
		*wc = verbs.WC{WRID: wc.WRID, QPN: qpn, Status: statusOf(status), VendorErr: uint32(status)}
	}
	return true
}

// isGID reports whether the end of a receive's entry is the sender's GID, given its address handle.
func (q *cq) isGID(ah uint16) bool { return q.strange && ah == unknownAH }

// sender returns the GID of a message's sender, if the entry has it.
func (q *cq) sender(e *cqe, wc *verbs.WC) verbs.GID {
	if wc.Opcode&verbs.WCRecv == 0 || wc.Status != verbs.StatusSuccess || !q.isGID(wc.SLID) {
		return verbs.GID{}
	}
	return e.tail
}

// The device's statuses that end a QP.
const (
	statusFlushed = 1
	statusQPFault = 2
)

// statuses maps the device's statuses.
var statuses = [...]verbs.Status{
	statusFlushed: verbs.StatusWRFlushErr,
	statusQPFault: verbs.StatusLocQPOpErr,
	3:             verbs.StatusLocQPOpErr,     // unsupported operation
	4:             verbs.StatusLocQPOpErr,     // invalid address handle
	5:             verbs.StatusLocProtErr,     // invalid local key
	6:             verbs.StatusLocLenErr,      // the message is too long
	7:             verbs.StatusRemAccessErr,   // remote key, range or right
	8:             verbs.StatusRemAbortErr,    // the peer's QP was reset
	9:             verbs.StatusRemInvRDReqErr, // no such QP, or it does not work
	10:            verbs.StatusRNRRetryExcErr, // no receive
	11:            verbs.StatusRemInvReqErr,   // the receive is too short
	12:            verbs.StatusBadRespErr,     // unexpected status of the peer
	13:            verbs.StatusRespTimeoutErr, // the peer does not answer
	14:            verbs.StatusRemOpErr,       // the peer has no address handle for this end
	15:            verbs.StatusRespTimeoutErr, // the peer was never reached
	18:            verbs.StatusRemInvReqErr,   // the peer has not the feature
}

// statusOf maps a status. An unknown one becomes StatusGeneralErr.
func statusOf(device uint8) verbs.Status {
	if int(device) < len(statuses) && statuses[device] != verbs.StatusSuccess {
		return statuses[device]
	}
	return verbs.StatusGeneralErr
}

// sent and received map the operations of completions. An unknown one prints as its number.
var (
	sent     = opcodes(verbs.WCSend, verbs.WCRDMARead, verbs.WCRDMAWrite)
	received = opcodes(verbs.WCRecv, verbs.WCRecv, verbs.WCRecvRDMAWithImm)
)

func opcodes(known ...verbs.WCOpcode) (all [8]verbs.WCOpcode) {
	for op := range all {
		all[op] = verbs.WCOpcode(1<<16 | op)
	}
	copy(all[:], known)
	return all
}
