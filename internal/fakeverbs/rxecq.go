package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// RXECQ is rxe's side of a completion queue.
type RXECQ struct {
	cq     *CQ
	ring   *rxeRing
	notify uint32 // IB_CQ_ bits
}

// Complete writes an entry as it stands, and raises an event if user space asked
// for one of any kind. It reports whether there was room; a CQ that overflows
// says so by an asynchronous event.
func (q *RXECQ) Complete(e abi.IbUverbsWc) bool {
	q.cq.k.mu.Lock()
	defer q.cq.k.mu.Unlock()
	return q.complete(&e, false)
}

// CompleteSolicited raises an event also if user space asked for a solicited one.
func (q *RXECQ) CompleteSolicited(e abi.IbUverbsWc) bool {
	q.cq.k.mu.Lock()
	defer q.cq.k.mu.Unlock()
	return q.complete(&e, true)
}

func (q *RXECQ) complete(e *abi.IbUverbsWc, solicited bool) bool {
	if !q.ring.put(abi.Bytes(e)) {
		q.cq.overflow()
		return false
	}
	if q.notify&abi.IB_CQ_NEXT_COMP != 0 || q.notify&abi.IB_CQ_SOLICITED != 0 && solicited {
		q.notify = 0
		q.cq.event()
	}
	return true
}

// SetProducer has the kernel's index in shared memory be anything.
func (q *RXECQ) SetProducer(index uint32) { q.ring.producer.Store(index) }

// notify adds to what was asked for before, as since Linux 6.2.
func (*rxe) notify(cq *CQ, flags uint32) error {
	cq.RXE.notify |= flags
	return nil
}

// resizeCQ copies what user space has not read to a new ring. The old one, which
// user space still has mapped, is left empty.
func (m *rxe) resizeCQ(cq *CQ, n uint32, r *ioctl.Request) error {
	old := cq.RXE.ring
	first := old.consumer.Load()
	if n == 0 || n > maxRXECQE || n < (old.index-first)&old.mask || !room(r, 16) {
		return syscall.EINVAL
	}
	var mem memory
	ring, mi, err := m.newRing(seam{object: cq.id, kind: EntryCQE}, &mem, n, rxeCQESize)
	if err != nil {
		return err
	}
	if err := old.move(ring, first, old.index); err != nil {
		mem.free()
		return err
	}
	ring.index = ring.producer.Load()
	cq.memory.free()
	cq.memory, cq.RXE.ring, cq.Entries = mem, ring, ring.mask
	return uhw(r, abi.RxeResizeCqResp{Mi: mi})
}
