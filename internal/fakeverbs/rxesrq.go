package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// RXESRQ is rxe's side of a shared receive queue.
type RXESRQ struct {
	srq  *SRQ
	ring *rxeRing
}

// TakeRecv takes the oldest receive, as for an arriving SEND; one that leaves
// fewer than the limit raises its event, once.
func (q *RXESRQ) TakeRecv() (RXERecv, bool) {
	q.srq.k.mu.Lock()
	defer q.srq.k.mu.Unlock()
	return q.take()
}

func (q *RXESRQ) take() (RXERecv, bool) {
	e, ok := takeRXERecv(q.ring)
	if ok {
		q.ring.check(&e, q.srq.MaxSGE)
	}
	if ok && q.ring.count() < q.srq.Limit {
		q.srq.Limit = 0
		q.srq.k.raise(q.srq.Cookie, abi.IB_EVENT_SRQ_LIMIT_REACHED)
	}
	return e, ok
}

func (m *rxe) modifySRQ(srq *SRQ, in *abi.IbUverbsModifySrq, r *ioctl.Request) error {
	var cmd abi.RxeModifySrqCmd
	if b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN); len(b) < 8 {
		return syscall.EINVAL
	}
	ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &cmd)
	resize, limit := in.AttrMask&abi.IB_SRQ_MAX_WR != 0, in.AttrMask&abi.IB_SRQ_LIMIT != 0
	switch {
	case resize && (in.MaxWr == 0 || in.MaxWr > maxRXEWR || in.MaxWr < srq.Limit):
		return syscall.EINVAL
	case limit && in.SrqLimit > srq.RXE.ring.mask:
		return syscall.EINVAL
	}
	if resize {
		if err := m.resizeSRQ(srq, in.MaxWr, cmd.MmapInfoAddr); err != nil {
			return err
		}
	}
	if limit {
		srq.Limit = in.SrqLimit
	}
	return nil
}

// resizeSRQ tells of the new ring at an address of user space, before it moves
// what was posted there.
func (m *rxe) resizeSRQ(srq *SRQ, n uint32, addr uint64) error {
	var mem memory
	ring, mi, err := m.newRing(srq.seam(), &mem, n, rxeRecvSize(srq.MaxSGE))
	if err != nil {
		return err
	}
	if err = m.k.User.Write(addr, abi.Bytes(&mi)); err == nil {
		old := srq.RXE.ring
		err = old.move(ring, old.index, old.producer.Load()&old.mask)
	}
	if err != nil {
		mem.free()
		return err
	}
	srq.memory.free()
	srq.memory, srq.RXE.ring, srq.MaxWR = mem, ring, ring.mask
	return nil
}
