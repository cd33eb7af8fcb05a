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
		return nil, fmt.Errorf("%w: a CQ of %d entries, no device has more than %d", verbs.ErrNotSupported, r.CQE, uint32(maxCQE))
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
		return nil, fmt.Errorf("erdma: the kernel makes CQ %d, which can't be", resp.CqId)
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

// Arm asks for an event at the next completion. The device ignores it while an event is
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
