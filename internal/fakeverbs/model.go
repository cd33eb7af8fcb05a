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
	limits() limits
	context(*ioctl.Request) error
	mmap(k *Kernel, offset int64, length int) (*mmap.Region, error)
	createCQ(*CQ, *ioctl.Request) error
	resizeCQ(cq *CQ, entries uint32, r *ioctl.Request) error
	notify(cq *CQ, flags uint32) error
	createQP(*QP, *ioctl.Request) error
	modifyQP(*QP, *abi.IbUverbsModifyQp) error
	destroyQP(*QP)
	doorbell(*QP) error
	createSRQ(*SRQ, *ioctl.Request) error
	modifySRQ(*SRQ, *abi.IbUverbsModifySrq, *ioctl.Request) error
	regMR(handle uint32, r *ioctl.Request) (key uint32, err error)
	createAH(*ioctl.Request) error
}

// bare is a driver without queues in shared memory: it agrees to everything.
type bare struct{}

func (bare) has(string) bool              { return true }
func (bare) context(*ioctl.Request) error { return nil }

func (bare) mmap(*Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

func (bare) createCQ(*CQ, *ioctl.Request) error   { return nil }
func (bare) notify(*CQ, uint32) error             { return nil }
func (bare) createQP(*QP, *ioctl.Request) error   { return nil }
func (bare) destroyQP(*QP)                        {}
func (bare) doorbell(*QP) error                   { return nil }
func (bare) createSRQ(*SRQ, *ioctl.Request) error { return nil }
func (bare) createAH(*ioctl.Request) error        { return nil }

func (bare) resizeCQ(cq *CQ, entries uint32, _ *ioctl.Request) error {
	cq.Entries = entries
	return nil
}

func (bare) regMR(h uint32, _ *ioctl.Request) (uint32, error) { return h<<8 | 1, nil }

func (bare) modifyQP(qp *QP, in *abi.IbUverbsModifyQp) error {
	qp.attr = *in
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		qp.state = in.QpState
	}
	return nil
}

func (bare) modifySRQ(srq *SRQ, in *abi.IbUverbsModifySrq, _ *ioctl.Request) error {
	if in.AttrMask&abi.IB_SRQ_MAX_WR != 0 {
		srq.MaxWR = in.MaxWr
	}
	if in.AttrMask&abi.IB_SRQ_LIMIT != 0 {
		srq.Limit = in.SrqLimit
	}
	return nil
}
