package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// erdma answers as the eRDMA driver, and is its device too: queues and doorbell records are
// user memory, doorbells are registers. Its rules come from the kernel driver and from
// rdma-core's provider; where these say nothing, a comment names the choice. It notes each
// breach of a rule as a violation, see [Kernel.Violations].
type erdma struct {
	bare
	k    *Kernel
	page []byte // of a new queue that is read
}

// ERDMAOptions are what differs between eRDMA devices.
type ERDMAOptions struct {
	// SDBType is how the context's doorbells for sends are laid out, an erdmaSDB number,
	// and SDBOffset says where with type 1.
	SDBType, SDBOffset uint32
	NoAtomics          bool
	// OldRecords is for rdma-core of before 2026: CQs' records begin with 0, and those of QPs
	// with what was in that memory before.
	OldRecords bool
	// Late says that stores are seen some time after they were made, when further ones may
	// have been made: records may be newer, and doorbells may be missing.
	Late bool
}

// The layouts of a page of send doorbells.
const (
	erdmaSDBEntry  = 1
	erdmaPage      = 4096
	erdmaMaxWR     = 8192
	erdmaMaxCQE    = 1 << 20
	erdmaMaxSGE    = 6
	erdmaMaxInline = 96
)

// The offsets at which the pages of doorbells are mapped, in system pages.
const (
	erdmaSDB = iota + 1
	erdmaRDB
	erdmaCDB
)

func (*erdma) limits() limits {
	l := bare{}.limits()
	d := &l.device
	d.VendorId, d.VendorPartId, d.MaxQpWr, d.MaxCqe = 0x1ded, 0x107f, erdmaMaxWR, erdmaMaxCQE
	d.MaxCq, d.MaxMr, d.MaxPd, d.MaxSge = 1<<17, 1<<17, 1<<17, 1 // the least of 6 to send and 1 to receive
	d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.AtomicCap, d.PageSizeCap = 128, 128, 2, 0x7ffff000
	l.port.MaxMsgSz = 1<<32 - 1
	return l
}

// has leaves out what erdma has no functions for.
func (*erdma) has(call string) bool {
	switch call {
	case "CREATE_AH", "AH_DESTROY", "ALLOC_MW", "MW_DESTROY", "RESIZE_CQ", "REQ_NOTIFY_CQ", "POST_SEND", "ATTACH_MCAST", "DETACH_MCAST",
		"REREG_MR", "SRQ_CREATE", "SRQ_DESTROY", "MODIFY_SRQ", "QUERY_SRQ":
		return false
	}
	return true
}

func (e *erdma) context(r *ioctl.Request) error {
	e.wantNoInput("GET_CONTEXT", r)
	o := &e.k.ERDMA
	page := uint64(pageSize)
	return uhw(r, abi.ErdmaUrespAllocCtx{DevId: 0x107f, SdbType: o.SDBType, SdbOffset: o.SDBOffset,
		Sdb: erdmaSDB * page, Rdb: erdmaRDB * page, Cdb: erdmaCDB * page})
}

// wantNoInput: newer kernels refuse private bytes that a method does not take.
func (e *erdma) wantNoInput(call string, r *ioctl.Request) {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		e.note("%s carries %d private bytes, and takes none", call, len(in))
	}
}

func (e *erdma) note(format string, args ...any) { e.k.device.violations.note(format, args...) }

// registers wants the length that was offered.
func (e *erdma) registers(_ *Kernel, key int64, length int) error {
	if page := key / int64(pageSize); key%int64(pageSize) != 0 || page < erdmaSDB || page > erdmaCDB || roundUp(length) != roundUp(erdmaPage) {
		return syscall.EINVAL
	}
	return nil
}

// mmap refuses: the queues are user memory.
func (*erdma) mmap(*Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

// erdmaInput reads the private bytes of a create call. Linux 6.12 takes fewer, and leaves
// the rest to what was on its stack.
func erdmaInput[T any](e *erdma, call string, r *ioctl.Request) (in T, err error) {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) != len(abi.Bytes(&in)) {
		e.note("%s carries %d private bytes, and takes %d", call, len(b), len(abi.Bytes(&in)))
		return in, syscall.EINVAL
	}
	ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in)
	return in, nil
}

// answerWhole is for answers of which the kernel writes everything, however little room there is.
func answerWhole[T any](e *erdma, call string, r *ioctl.Request, v T) error {
	if room, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT); len(room) < len(abi.Bytes(&v)) {
		e.note("%s has room for %d private bytes, and the kernel writes %d", call, len(room), len(abi.Bytes(&v)))
		return syscall.EFAULT
	}
	return uhw(r, v)
}

func (e *erdma) regMR(h uint32, r *ioctl.Request) (uint32, error) {
	e.wantNoInput("REG_MR", r)
	return (h + 1) << 8, nil
}
