package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// cq is a completion queue in this process's memory, which the device writes. The owner bit
// of entries changes each time the device wraps around.
type cq struct {
	ctx     *mlx5Context
	region  *mmap.Region
	ring    mmap.Array[cqe]
	step    uint32 // of an entry in ring: 1, or 2 where it is the second of two
	entries uint32 // a power of two
	ci      uint32 // free-running
	record  record
	num     uint32
	events  uint32 // events that were read from the channel
	lost    bool   // the queue was lost when it was resized
	peek    mmap.Peek
	ext     verbs.WCExtMask // the fields that PollExt fills in
}

// maxCQE is the number of entries that the arming word's index has room for.
const maxCQE = 1 << 24

// CreateCQ creates a CQ. It asks the kernel for one entry less than the queue has, because
// the kernel adds one and rounds up.
func (c *mlx5Context) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	q := &cq{ctx: c, step: c.tuning.cqeSize / cqeSize}
	if err := q.extend(r.Ext); err != nil {
		return nil, err
	}
	if err := q.alloc(r, r.CQE); err != nil {
		return nil, err
	}
	var err error
	if q.record, err = c.records.take(); err != nil {
		return nil, err
	}
	r.CQE = q.entries - 1
	if err := q.create(r); err != nil {
		c.records.give(q.record)
		return nil, err
	}
	r.CQE = q.entries - 1
	return q, nil
}

func (q *cq) create(r *driver.CreateCQ) error {
	s := &q.ctx.registers
	req := abi.Mlx5IbCreateCq{BufAddr: q.region.Addr(), DbAddr: q.record.addr, CqeSize: q.ctx.tuning.cqeSize}
	var uar []driver.Attr
	switch {
	case !s.dynamic:
	case s.cqUAR <= maxUARInRequest:
		req.Flags, req.UarPageIndex = abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(s.cqUAR)
	default:
		uar = []driver.Attr{{ID: abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, In: abi.Bytes(&s.cqUAR)}}
	}
	var resp abi.Mlx5IbCreateCqResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}, uar...); err != nil {
		return err
	}
	if q.num = resp.Cqn; q.num > cqeNumberMask {
		return fmt.Errorf("mlx5: the kernel makes CQ %#x, which can't be", q.num)
	}
	return nil
}

// maxUARInRequest is the largest UAR number that the request's field has room for.
const maxUARInRequest = 1<<16 - 1

// alloc makes a queue for more than n entries, none of which is valid.
func (q *cq) alloc(memory driver.Memory, n uint32) error {
	if n >= maxCQE {
		return fmt.Errorf("%w: a CQ of %d entries, no device has more than %d", verbs.ErrNotSupported, n, uint32(maxCQE-1))
	}
	entries := pow2(n + 1)
	slots := entries * q.step
	region, err := memory.Alloc(int(slots)*cqeSize, nil)
	if err != nil {
		return err
	}
	ring, err := mmap.NewArray[cqe](region, 0, slots)
	if err != nil {
		return err
	}
	q.region, q.ring, q.entries = region, ring, entries
	for i := range entries {
		q.at(i).counterOwn.Store(cqeInvalid)
	}
	q.peek.Hide()
	return nil
}

// slot returns the position in ring of the entry with a free-running index.
func (q *cq) slot(i uint32) uint32 { return i*q.step + q.step - 1 }

func (q *cq) at(i uint32) *cqe { return q.ring.At(q.slot(i)) }

// front returns the 64 bytes before a long entry.
func (q *cq) front(i uint32) *cqe { return q.ring.At(q.slot(i) - 1) }

// Arm asks for an event at the next completion after the last one that was polled. The
// device ignores it while an event is unread.
func (q *cq) Arm(solicitedOnly bool) error {
	v := (q.events&3)<<armEventShift | q.ci&armConsumed
	if solicitedOnly {
		v |= armSolicited
	}
	q.record.set(armWord, v)
	q.ctx.registers.cq.StoreWC64(uarCQ, words(v, q.num))
	return nil
}

// Event implements driver.EventCounter.
func (q *cq) Event() { q.events++ }

// Destroy implements driver.Destroyer.
func (q *cq) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.records.give(q.record)
	}
	return err
}
