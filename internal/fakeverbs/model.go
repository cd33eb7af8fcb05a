package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// model is a driver: it answers what the core passes on unread, and says what it
// can't do.
type model interface {
	has(call string) bool
	context(*ioctl.Request) error
	mmap(k *Kernel, offset int64, length int) (*mmap.Region, error)
	registers(k *Kernel, key int64, length int) error
	store(k *Kernel, key int64, offset, size int, value uint64)
	createCQ(*CQ, *ioctl.Request) error
	resizeCQ(cq *CQ, entries uint32, r *ioctl.Request) error
	notify(cq *CQ, flags uint32) error
	createQP(*QP, *ioctl.Request) error
	modifyQP(*QP, *abi.IbUverbsModifyQp) error
	destroyQP(*QP)
	doorbell(*QP) error
	waiting(*QP) int // sends that user space has handed over
	createSRQ(*SRQ, *ioctl.Request) error
	modifySRQ(*SRQ, *abi.IbUverbsModifySrq, *ioctl.Request) error
	regMR(handle uint32, r *ioctl.Request) (key uint32, err error)
	createAH(*AH, *ioctl.Request) error
}

// bare is a driver of hardware. The fake knows nothing of its queues, which are between
// user space and the device, and does not read its private bytes. It refuses what the
// core and every such driver refuse.
type bare struct{}

// has leaves out what only rxe and siw take from user space: doorbells and arming are
// stores to a device elsewhere.
func (bare) has(call string) bool { return call != "POST_SEND" && call != "REQ_NOTIFY_CQ" }

func (bare) context(*ioctl.Request) error { return nil }

func (bare) mmap(*Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

func (bare) registers(*Kernel, int64, int) error { return syscall.EINVAL }

func (bare) store(*Kernel, int64, int, int, uint64) {}

// cqFlags are those that the core knows.
const cqFlags = abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN

func (bare) createCQ(cq *CQ, _ *ioctl.Request) error {
	if cq.Flags&^cqFlags != 0 {
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (bare) resizeCQ(cq *CQ, entries uint32, _ *ioctl.Request) error {
	if entries == 0 {
		return syscall.EINVAL
	}
	cq.Entries = entries
	return nil
}

func (bare) notify(*CQ, uint32) error { return syscall.EOPNOTSUPP }

func (bare) createQP(qp *QP, _ *ioctl.Request) error {
	switch qp.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC, abi.IB_UVERBS_QPT_UD, abi.IB_UVERBS_QPT_XRC_INI, abi.IB_UVERBS_QPT_DRIVER:
	default:
		return syscall.EOPNOTSUPP
	}
	c, most := &qp.Cap, bare{}.limits().device.MaxSge
	if c.MaxSendSge > most || qp.srq == nil && c.MaxRecvSge > most {
		return syscall.EINVAL
	}
	return nil
}

// modifyQP holds a QP of the driver's own type to no table: the driver has one.
func (bare) modifyQP(qp *QP, in *abi.IbUverbsModifyQp) error {
	from, to := qp.state, qp.state
	if in.AttrMask&abi.IB_QP_CUR_STATE != 0 {
		from = in.CurQpState
	}
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		to = in.QpState
	}
	if qp.Type != abi.IB_UVERBS_QPT_DRIVER && !modifyIsOK(from, to, qp.Type, in.AttrMask) {
		return syscall.EINVAL
	}
	qp.state = to
	qp.takeOver(in)
	return nil
}

func (bare) destroyQP(*QP)      {}
func (bare) doorbell(*QP) error { return syscall.EOPNOTSUPP }
func (bare) waiting(*QP) int    { return 0 }

func (bare) createSRQ(srq *SRQ, _ *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxSGE > (bare{}).limits().device.MaxSge || srq.Limit > srq.MaxWR {
		return syscall.EINVAL
	}
	return nil
}

func (bare) modifySRQ(srq *SRQ, in *abi.IbUverbsModifySrq, _ *ioctl.Request) error {
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

func (bare) regMR(h uint32, _ *ioctl.Request) (uint32, error) { return h<<8 | 1, nil }

func (bare) createAH(*AH, *ioctl.Request) error { return nil }
