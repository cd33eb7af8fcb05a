package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// Driver is an entry of the constructor table. A package that models a device registers one.
type Driver struct {
	ID     uint32 // an RDMA_DRIVER_ number
	Limits func() Limits
	New    func(k *Kernel) Model // returns the model of an opening
	// NewShared returns the value of Device.Shared. It may be nil.
	NewShared func() any

	Software      bool          // whether it has only the features of Linux's software drivers
	RoCE          bool          // whether its devices are on RoCE v2 by default
	OnRoCE        func(*Limits) // changes the limits of a device that is put on RoCE v2
	RateLimits    bool          // whether its QPs can have a rate limit
	DMABufs       bool          // whether it registers dma-bufs
	FirstQPN      uint32        // the number of the first QP; 1 if it is 0
	QPSlots       uint32        // if not 0, a power of two: the bits of a QP's number above it count the uses of the lower ones, up to 16 bits
	IgnoresIOVA   bool          // whether it takes the address of a region for that in work requests
	CountsWindows bool          // whether it refuses to end a region with a bound window
	RefusedAccess uint32        // access flags of regions that it does not support
	KeepsRegions  bool          // whether sends can't invalidate its regions, only windows
	LetsGo        bool          // whether its removal takes the device from programs, and doesn't wait for them

	Methods  map[[2]uint16]*Method // its additional methods, by object and number
	Own      map[uint16]bool       // its additional attributes for methods of the core
	Refusals map[string]Refusal    // by name of the call
}

// drivers is the constructor table. The init functions of packages fill it.
var drivers = make(map[uint32]*Driver)

// Register adds a driver to the table. It panics if the table already has the number.
func Register(d *Driver) {
	if drivers[d.ID] != nil {
		panic(fmt.Sprintf("fakeverbs: driver %d is registered twice", d.ID))
	}
	drivers[d.ID] = d
}

// driverOf returns the driver with a number. If the table has no entry, it is a driver of unknown
// hardware.
func driverOf(id uint32) *Driver {
	if d := drivers[id]; d != nil {
		return d
	}
	return &Driver{ID: id, Limits: unknownLimits, New: func(*Kernel) Model { return Bare{} }}
}

func unknownLimits() Limits {
	l := BareLimits()
	l.MaxDM, l.Moderation = 64<<10, abi.IbUverbsCqModerationCaps{MaxCqModerationCount: 1000, MaxCqModerationPeriod: 4000}
	return l
}

// Model is the driver of an opening. It handles the private bytes, which the core doesn't read, and
// refuses the calls that the driver lacks. The kernel's lock is held. Most models embed
// [Bare]. A model may also implement the optional interfaces in the files of objects, for
// WQs, device memory, flow rules, XRC, copies to registers, and limits that depend on options.
type Model interface {
	// Has reports whether the driver has a call. Names are those of this package's tables.
	Has(call string) bool
	// Context answers GET_CONTEXT.
	Context(*ioctl.Request) error
	// Map maps memory that a create call has offered. MapRegisters maps registers.
	Map(k *Kernel, offset int64, length int) (*mmap.Region, error)
	MapRegisters(k *Kernel, key int64, length int) error
	// Store handles a store to registers.
	Store(k *Kernel, key int64, offset, size int, value uint64)

	CreateCQ(*CQ, *ioctl.Request) error
	ResizeCQ(cq *CQ, entries uint32, r *ioctl.Request) error
	// Notify handles a call that arms a CQ, with IB_CQ_ flags.
	Notify(cq *CQ, flags uint32) error

	CreateQP(*QP, *ioctl.Request) error
	ModifyQP(*QP, *abi.IbUverbsModifyQp) error
	DestroyQP(*QP)
	// Doorbell handles POST_SEND, the doorbell of drivers in software.
	Doorbell(*QP) error
	// Waiting returns the number of sends that user space has posted.
	Waiting(*QP) int

	CreateSRQ(*SRQ, *ioctl.Request) error
	ModifySRQ(*SRQ, *abi.IbUverbsModifySrq, *ioctl.Request) error
	RegMR(handle uint32, r *ioctl.Request) (key uint32, err error)
	CreateAH(*AH, *ioctl.Request) error
}

// Bare is a driver of hardware without a model. The fake doesn't know its queues, which are between user
// space and the device, and doesn't read its private bytes. It makes the checks of the core and those
// that all drivers of hardware make.
type Bare struct{}

// Has returns false for the calls that only drivers in software have. With hardware, doorbells and arming
// are stores to the device.
func (Bare) Has(call string) bool { return call != "POST_SEND" && call != "REQ_NOTIFY_CQ" }

func (Bare) Context(*ioctl.Request) error { return nil }

func (Bare) Map(*Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

func (Bare) MapRegisters(*Kernel, int64, int) error { return syscall.EINVAL }

func (Bare) Store(*Kernel, int64, int, int, uint64) {}

// cqFlags holds the flags that the core knows.
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

// ModifyQP doesn't check the transitions of a QP of a driver-specific type, because only the driver
// knows them.
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

// ionic is a driver that is missing from the headers of Linux 6.12.
const ionic = 21

// Refusal is a kernel driver's error for a call without the private bytes that it requires: In bytes of
// input, and room for Out bytes of output.
type Refusal struct {
	In, Out int
	Err     error
}

// refusals holds the refusals of drivers of hardware without a model.
var refusals = map[string]map[uint32]Refusal{
	"GET_CONTEXT": {
		abi.RDMA_DRIVER_MLX4:       {0, 16, syscall.EFAULT},
		abi.RDMA_DRIVER_IRDMA:      {8, 17, syscall.EINVAL}, // 16 bytes for old hardware
		ionic:                      {8, 40, syscall.EINVAL},
		abi.RDMA_DRIVER_CXGB4:      {0, 12, syscall.EINVAL}, // the driver accepts the call, but corrupts other queues
		abi.RDMA_DRIVER_OCRDMA:     {0, 80, syscall.EFAULT},
		abi.RDMA_DRIVER_MTHCA:      {0, 8, syscall.EFAULT},
		abi.RDMA_DRIVER_VMW_PVRDMA: {0, 8, syscall.EFAULT},
	},
	"ALLOC_PD": {
		abi.RDMA_DRIVER_MLX4:       {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_IRDMA:      {0, 8, syscall.EINVAL},
		abi.RDMA_DRIVER_CXGB4:      {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_OCRDMA:     {0, 24, syscall.EFAULT},
		abi.RDMA_DRIVER_MTHCA:      {0, 4, syscall.EFAULT},
		abi.RDMA_DRIVER_VMW_PVRDMA: {0, 8, syscall.EFAULT},
	},
	"REG_MR": {
		abi.RDMA_DRIVER_IRDMA: {8, 0, syscall.EINVAL},
	},
}

// insist refuses a call without the required private bytes, as the kernel driver does.
func (k *Kernel) insist(call string, r *ioctl.Request) error {
	want, ok := k.Device.driver.Refusals[call]
	if !ok {
		want, ok = refusals[call][k.Driver()]
	}
	if !ok {
		return nil
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if len(in) < want.In || len(out) < want.Out {
		return want.Err
	}
	return nil
}

// Attributes of all fake devices.
const (
	CompVectors = 2
	NodeGUID    = 0x020000fffe000001
	Netdev      = 7 // index of the network device of port 1
	MaxQP       = 64 * 1024
)

// GID is the only entry of the GID table of a device without RoCE. The table of a device with RoCE has
// LinkLocalGID at index 0 and IPv4GID at index 1.
var (
	GID          = [16]byte{0x02, 0, 0, 0xff, 0xfe, 0, 0, 1}
	LinkLocalGID = [16]byte{0xfe, 0x80, 11: 0xff, 12: 0xfe, 15: 1}
	IPv4GID      = [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 9, 14: 9, 15: 9}
)

const gidEntrySize = 32

// Limits holds the attributes of a device.
type Limits struct {
	Device abi.IbUverbsQueryDeviceResp
	Caps   uint64
	Port   abi.IbUverbsQueryPortResp
	GIDs   []abi.IbUverbsGidEntry

	// These are 0 for devices in software.
	MaxDM      uint64
	ClockMask  uint64
	ClockKHz   uint64
	RawCaps    uint32
	Moderation abi.IbUverbsCqModerationCaps
	RSS        abi.IbUverbsRssCaps
	ODP        abi.IbUverbsOdpCaps
	ODPXRC     uint32
}

// BareLimits returns default attributes, which models change.
func BareLimits() Limits {
	const caps = 0x200000
	return Limits{
		Caps: caps,
		Device: abi.IbUverbsQueryDeviceResp{
			NodeGuid: bits.ReverseBytes64(NodeGUID), MaxMrSize: 1<<64 - 1, MaxQp: MaxQP, MaxSge: 6, MaxSgeRd: 1,
			DeviceCapFlags: caps, PhysPortCnt: 1,
		},
		Port: abi.IbUverbsQueryPortResp{
			MaxMsgSz: 1<<31 - 1, GidTblLen: 1, State: 4, MaxMtu: 5, ActiveMtu: 3, PhysState: 5, LinkLayer: 2,
			ActiveWidth: 1, ActiveSpeed: 1,
		},
		GIDs: []abi.IbUverbsGidEntry{GIDEntry(GID, 0, 0)},
	}
}

// GIDEntry returns an entry of port 1's GID table. typ is 2 for RoCE v2.
func GIDEntry(gid [16]byte, index, typ uint32) abi.IbUverbsGidEntry {
	return abi.IbUverbsGidEntry{
		Gid:      [2]uint64{binary.NativeEndian.Uint64(gid[:]), binary.NativeEndian.Uint64(gid[8:])},
		GidIndex: index, GidType: typ, PortNum: 1, NetdevIfindex: Netdev,
	}
}
