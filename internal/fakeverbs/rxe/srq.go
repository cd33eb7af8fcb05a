package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// SRQ is rxe's side of a shared receive queue.
type SRQ struct {
	srq  *fakeverbs.SRQ
	ring *ring
}

// TakeRecv takes the oldest receive, for an arriving SEND. If fewer receives than the limit are left, it
// raises the event once.
func (q *SRQ) TakeRecv() (Recv, bool) {
	q.srq.Kernel().Lock()
	defer q.srq.Kernel().Unlock()
	return copied(q.take())
}

func (q *SRQ) take() (*Recv, bool) {
	e, ok := takeRecv(q.ring)
	if ok {
		q.ring.check(e, q.srq.MaxSGE)
	}
	if ok && q.ring.count() < q.srq.Limit {
		q.srq.Limit = 0
		q.srq.Kernel().Raise(q.srq.Cookie, abi.IB_EVENT_SRQ_LIMIT_REACHED)
	}
	return e, ok
}

func (m *model) ModifySRQ(srq *fakeverbs.SRQ, in *abi.IbUverbsModifySrq, r *ioctl.Request) error {
	var cmd abi.RxeModifySrqCmd
	if b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN); len(b) < 8 {
		return syscall.EINVAL
	}
	ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &cmd)
	resize, limit := in.AttrMask&abi.IB_SRQ_MAX_WR != 0, in.AttrMask&abi.IB_SRQ_LIMIT != 0
	switch {
	case resize && (in.MaxWr == 0 || in.MaxWr > maxWR || in.MaxWr < srq.Limit):
		return syscall.EINVAL
	case limit && in.SrqLimit > SRQOf(srq).ring.mask:
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

// resizeSRQ writes the offset of the new ring to user memory before it moves the posted receives.
func (m *model) resizeSRQ(srq *fakeverbs.SRQ, n uint32, addr uint64) error {
	var mem fakeverbs.QueueMemory
	ring, mi, err := m.newRing(srq.Seam(), &mem, n, recvSize(srq.MaxSGE))
	if err != nil {
		return err
	}
	if err = m.k.User.Write(addr, abi.Bytes(&mi)); err == nil {
		old := SRQOf(srq).ring
		err = old.move(ring, old.index, old.producer.Load()&old.mask)
	}
	if err != nil {
		mem.Free()
		return err
	}
	srq.Mem.Free()
	srq.Mem, SRQOf(srq).ring, srq.MaxWR = mem, ring, ring.mask
	return nil
}
