package erdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// cq is a completion queue in this process's memory, which the device writes. The device
// learns how many completions were read only when the CQ is armed.
type cq struct {
	ctx      *erdmaContext
	ring     mmap.LapConsumer[cqe]
	record   record
	num      uint32
	doorbell int
	arms     uint32
	events   uint32 // events that were read from the channel
}

// CreateCQ creates the queue and writes a record for a CQ that was never armed: the device
// would take zeros for the first arm.
func (c *erdmaContext) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	if r.CQE > maxCQE {
		return nil, fmt.Errorf("%w: a CQ of %d entries, devices have at most %d", verbs.ErrNotSupported, r.CQE, uint32(maxCQE))
	}
	r.CQE = pow2(max(r.CQE, minCQE))
	buf, err := r.Alloc(int(r.CQE)*blockSize, nil)
	if err != nil {
		return nil, err
	}
	rec, err := c.records.take()
	if err != nil {
		return nil, err
	}
	req := abi.ErdmaUreqCreateCq{DbRecordVa: rec.addr, QbufVa: buf.Addr(), QbufLen: uint32(buf.Len())}
	var resp abi.ErdmaUrespCreateCq
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		c.records.give(rec)
		return nil, err
	}
	if r.CQE = resp.NumCqe; resp.CqId > maxCQN {
		return nil, fmt.Errorf("the kernel returned invalid CQ number %d", resp.CqId)
	}
	ring, err := mmap.NewLapConsumer[cqe](buf, resp.NumCqe, 0, cqeOwner)
	if err != nil {
		return nil, err
	}
	q := &cq{ctx: c, ring: *ring, record: rec, num: resp.CqId, doorbell: cqDoorbell(resp.CqId), arms: cqBeforeFirst, events: 3}
	mmap.StoreRelease64(rec.word[0], q.state())
	q.arms, q.events = 0, 0
	return q, nil
}

// maxCQN is the largest CQ number that a doorbell has room for.
const maxCQN = 1<<24 - 1

// maxCQE is above the device's limit, which the kernel checks.
const maxCQE = 1 << 24

// state returns the value of the CQ's doorbell without the arming bits.
func (q *cq) state() uint64 {
	return uint64(q.arms&0xff)<<cqIndexShift | uint64(q.num)<<cqNumShift | uint64(q.events&3)<<cqEventShift |
		uint64(q.ring.Index()&cqConsumed)
}

// Arm requests an event at the next completion. The device ignores it while an event is
// unread, because the program is going to poll anyway.
func (q *cq) Arm(solicitedOnly bool) error {
	v := q.state() | cqArm
	if solicitedOnly {
		v |= cqSolicited
	}
	q.arms++
	mmap.StoreRelease64(q.record.word[0], v)
	q.ctx.cdb.Store64(q.doorbell, v)
	return nil
}

// Event implements driver.EventCounter.
func (q *cq) Event() { q.events++ }

// Peek implements driver.Peeker.
func (q *cq) Peek() *mmap.Peek { return q.ring.Peek() }

// Destroy implements driver.Destroyer.
func (q *cq) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.records.give(q.record)
	}
	return err
}

// Poll reads completions. It skips those that match no work request.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	combined := verbs.StatusSuccess
	for n < len(wcs) {
		ready := q.ring.Ready(len(wcs) - n)
		if ready == 0 {
			break
		}
		for i := range ready {
			if q.complete(q.ring.At(i), &wcs[n]) {
				combined |= wcs[n].Status
				n++
			}
		}
		q.ring.Release(ready)
	}
	return n, combined != verbs.StatusSuccess, nil
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

// statuses maps the device's syndromes to statuses and vendor codes.
var statuses = [...]struct {
	status verbs.Status
	vendor uint32
}{
	1:  {verbs.StatusGeneralErr, 0},
	2:  {verbs.StatusGeneralErr, 1},      // a receive is malformed
	3:  {verbs.StatusRemAccessErr, 2},    // the receiving end: unknown key
	4:  {verbs.StatusRemAccessErr, 3},    // outside the region
	5:  {verbs.StatusRemAccessErr, 4},    // not allowed
	6:  {verbs.StatusRemAccessErr, 5},    // another PD
	7:  {verbs.StatusRemAccessErr, 6},    // the address wraps around
	8:  {verbs.StatusLocQPOpErr, 0x20},   // a send is malformed
	9:  {verbs.StatusGeneralErr, 0x21},   // no reads were negotiated
	10: {verbs.StatusLocAccessErr, 0x30}, // the sending end: as 3 to 7
	11: {verbs.StatusLocAccessErr, 0x31}, //
	12: {verbs.StatusLocAccessErr, 0x32}, //
	13: {verbs.StatusLocAccessErr, 0x33}, //
	14: {verbs.StatusLocAccessErr, 0x34}, //
	15: {verbs.StatusWRFlushErr, 0},      //
	16: {verbs.StatusRetryExcErr, 0},     //
}

// statusOf maps a syndrome. An unknown syndrome becomes StatusGeneralErr, with its number
// as the vendor code.
func statusOf(syndrome uint8) (verbs.Status, uint32) {
	if int(syndrome) < len(statuses) {
		s := &statuses[syndrome]
		return s.status, s.vendor
	}
	return verbs.StatusGeneralErr, uint32(syndrome)
}

// wcOpcodes has an element for every uint8. An unknown opcode prints as its number.
var wcOpcodes = func() (all [256]verbs.WCOpcode) {
	for op := range all {
		all[op] = verbs.WCOpcode(1<<16 | op)
	}
	for op, wc := range knownOpcodes {
		all[op] = wc
	}
	return all
}()

var knownOpcodes = map[uint8]verbs.WCOpcode{
	opWrite:       verbs.WCRDMAWrite,
	opRead:        verbs.WCRDMARead,
	opSend:        verbs.WCSend,
	opSendImm:     verbs.WCSend,
	opReceive:     verbs.WCRecv,
	opRecvImm:     verbs.WCRecvRDMAWithImm,
	opRecvInv:     verbs.WCRecv,
	opWriteImm:    verbs.WCRDMAWrite,
	opRspSendImm:  verbs.WCRecv,
	opSendInv:     verbs.WCSend,
	opLocalInv:    verbs.WCLocalInv,
	opReadInv:     verbs.WCRDMARead,
	opCompareSwap: verbs.WCCompareSwap,
	opFetchAdd:    verbs.WCFetchAdd,
}
