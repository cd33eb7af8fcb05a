package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CQ is rxe's side of a completion queue.
type CQ struct {
	cq     *fakeverbs.CQ
	ring   *ring
	notify uint32 // IB_CQ_ bits
}

// Complete writes an entry as it stands, and raises an event if user space asked
// for one of any kind. It reports whether there was room; a CQ that overflows
// says so by an asynchronous event.
func (q *CQ) Complete(e abi.IbUverbsWc) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(&e, false)
}

// CompleteSolicited raises an event also if user space asked for a solicited one.
func (q *CQ) CompleteSolicited(e abi.IbUverbsWc) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(&e, true)
}

func (q *CQ) complete(e *abi.IbUverbsWc, solicited bool) bool {
	if !q.ring.put(abi.Bytes(e)) {
		q.cq.Overflow()
		return false
	}
	if q.notify&abi.IB_CQ_NEXT_COMP != 0 || q.notify&abi.IB_CQ_SOLICITED != 0 && solicited {
		q.notify = 0
		q.cq.RaiseEvent()
	}
	return true
}

// SetProducer has the kernel's index in shared memory be anything.
func (q *CQ) SetProducer(index uint32) { q.ring.producer.Store(index) }

// Notify adds to what was asked for before, as since Linux 6.2.
func (*model) Notify(cq *fakeverbs.CQ, flags uint32) error {
	CQOf(cq).notify |= flags
	return nil
}

// ResizeCQ copies what user space has not read to a new ring. The old one, which
// user space still has mapped, is left empty.
func (m *model) ResizeCQ(cq *fakeverbs.CQ, n uint32, r *ioctl.Request) error {
	old := CQOf(cq).ring
	first := old.consumer.Load()
	if n == 0 || n > maxCQE || n < (old.index-first)&old.mask || !fakeverbs.HasRoom(r, 16) {
		return syscall.EINVAL
	}
	var mem fakeverbs.QueueMemory
	ring, mi, err := m.newRing(fakeverbs.Seam{Object: cq.ID, Kind: fakeverbs.EntryCQE}, &mem, n, cqeSize)
	if err != nil {
		return err
	}
	if err := old.move(ring, first, old.index); err != nil {
		mem.Free()
		return err
	}
	ring.index = ring.producer.Load()
	cq.Mem.Free()
	cq.Mem, CQOf(cq).ring, cq.Entries = mem, ring, ring.mask
	return fakeverbs.AnswerDriver(r, abi.RxeResizeCqResp{Mi: mi})
}
