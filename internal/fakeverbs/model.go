package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// Model is a driver of one opening: it answers what the core passes on unread, and says
// what it can't do. The kernel's lock is held.
type Model interface {
	Has(call string) bool
	Context(*ioctl.Request) error
	Map(k *Kernel, offset int64, length int) (*mmap.Region, error)
	MapRegisters(k *Kernel, key int64, length int) error
	Store(k *Kernel, key int64, offset, size int, value uint64)
	CreateCQ(*CQ, *ioctl.Request) error
	ResizeCQ(cq *CQ, entries uint32, r *ioctl.Request) error
	Notify(cq *CQ, flags uint32) error
	CreateQP(*QP, *ioctl.Request) error
	ModifyQP(*QP, *abi.IbUverbsModifyQp) error
	DestroyQP(*QP)
	Doorbell(*QP) error
	Waiting(*QP) int // sends that user space has handed over
	CreateSRQ(*SRQ, *ioctl.Request) error
	ModifySRQ(*SRQ, *abi.IbUverbsModifySrq, *ioctl.Request) error
	RegMR(handle uint32, r *ioctl.Request) (key uint32, err error)
	CreateAH(*AH, *ioctl.Request) error
}

// Bare is a driver of hardware. The fake knows nothing of its queues, which are between
// user space and the device, and does not read its private bytes. It refuses what the
// core and every such driver refuse.
type Bare struct{}

// Has leaves out what only drivers in software take from user space: doorbells and arming are
// stores to a device elsewhere.
func (Bare) Has(call string) bool { return call != "POST_SEND" && call != "REQ_NOTIFY_CQ" }

func (Bare) Context(*ioctl.Request) error { return nil }

func (Bare) Map(*Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

func (Bare) MapRegisters(*Kernel, int64, int) error { return syscall.EINVAL }

func (Bare) Store(*Kernel, int64, int, int, uint64) {}

// cqFlags are those that the core knows.
const cqFlags = abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN

func (Bare) CreateCQ(cq *CQ, _ *ioctl.Request) error {
	if cq.Flags&^cqFlags != 0 {
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (Bare) ResizeCQ(cq *CQ, entries uint32, _ *ioctl.Request) error {
	if entries == 0 {
		return syscall.EINVAL
	}
	cq.Entries = entries
	return nil
}

func (Bare) Notify(*CQ, uint32) error { return syscall.EOPNOTSUPP }

func (Bare) CreateQP(qp *QP, _ *ioctl.Request) error {
	switch qp.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC, abi.IB_UVERBS_QPT_UD, abi.IB_UVERBS_QPT_XRC_INI, abi.IB_UVERBS_QPT_DRIVER:
	default:
		return syscall.EOPNOTSUPP
	}
	c, most := &qp.Cap, BareLimits().Device.MaxSge
	if c.MaxSendSge > most || qp.SRQ == nil && c.MaxRecvSge > most {
		return syscall.EINVAL
	}
	return nil
}

// ModifyQP holds a QP of the driver's own type to no table: the driver has one.
func (Bare) ModifyQP(qp *QP, in *abi.IbUverbsModifyQp) error {
	from, to := qp.CurState, qp.CurState
	if in.AttrMask&abi.IB_QP_CUR_STATE != 0 {
		from = in.CurQpState
	}
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		to = in.QpState
	}
	if qp.Type != abi.IB_UVERBS_QPT_DRIVER && !ModifyIsOK(from, to, qp.Type, in.AttrMask) {
		return syscall.EINVAL
	}
	qp.CurState = to
	qp.TakeOver(in)
	return nil
}

func (Bare) DestroyQP(*QP)      {}
func (Bare) Doorbell(*QP) error { return syscall.EOPNOTSUPP }
func (Bare) Waiting(*QP) int    { return 0 }

func (Bare) CreateSRQ(srq *SRQ, _ *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxSGE > BareLimits().Device.MaxSge || srq.Limit > srq.MaxWR {
		return syscall.EINVAL
	}
	return nil
}

func (Bare) ModifySRQ(srq *SRQ, in *abi.IbUverbsModifySrq, _ *ioctl.Request) error {
	const known = abi.IB_SRQ_MAX_WR | abi.IB_SRQ_LIMIT
	maxWR, limit := srq.MaxWR, srq.Limit
	if in.AttrMask&abi.IB_SRQ_MAX_WR != 0 {
		maxWR = in.MaxWr
	}
	if in.AttrMask&abi.IB_SRQ_LIMIT != 0 {
		limit = in.SrqLimit
	}
	if in.AttrMask&^known != 0 || maxWR == 0 || limit > maxWR {
		return syscall.EINVAL
	}
	srq.MaxWR, srq.Limit = maxWR, limit
	return nil
}

func (Bare) RegMR(h uint32, _ *ioctl.Request) (uint32, error) { return h<<8 | 1, nil }

func (Bare) CreateAH(*AH, *ioctl.Request) error { return nil }
