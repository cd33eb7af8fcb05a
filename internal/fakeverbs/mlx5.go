package fakeverbs

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// mlx5 answers as the mlx5 driver of Linux 6.12, and is its device too: queues and doorbell
// records are user memory, doorbells are registers of UARs. What it insists on was taken
// from the kernel driver's structures and from what the device documents. What user space
// does wrong is a violation, see [Kernel.Violations].
type mlx5 struct {
	bare
	k       *Kernel
	version uint8 // of completions
	told    abi.Mlx5IbAllocUcontextResp
	dynamic bool
	uars    map[int64]*mlx5UAR // by the key that they are mapped at
	lastUAR uint32
	nextReg uint32          // static register for the next QP
	records map[uint64]bool // cache lines in use
	indexes map[uint32]bool // of queue pairs
	shared  bool            // by processes, each of which counts its own indexes
	cqs     map[uint32]*MLX5CQ
	dms     map[int64]mlx5DM // by the key that they are mapped at
	part    []byte           // of a new queue that is read
	clock   mlx5Clock
	exited  bool // the process has: what it left half done is no violation
}

// MLX5Options are what differs between mlx5 devices and their kernels.
type MLX5Options struct {
	Infiniband bool
	NoAtomics  bool
	// NoChecksums is a device that fills in none of raw packets.
	NoChecksums bool
	// StaticUARs is a kernel without dynamic UARs, and NoBlueFlame a processor that can't
	// combine writes: it has no registers for copies. NoWC has registers, but refuses UARs
	// for copies.
	StaticUARs, NoBlueFlame, NoWC bool
	// CQEVersion0 is a device that names queue pairs in completions by their numbers.
	CQEVersion0 bool
	// InlineHeaders is a device that wants the Ethernet header of a raw packet in the request.
	InlineHeaders bool
	// Request is the longest request for a context that the kernel takes; 0 is any.
	Request int
	// FirstUAR is the number of the first dynamic UAR.
	FirstUAR uint32
	// NoClock is a kernel that does not tell how to make times of a clock's ticks.
	NoClock bool
	// NoMAC is a kernel that does not tell the MAC of an address.
	NoMAC bool
	// NoTicks is a kernel that does not let programs read the device's clock.
	NoTicks bool
	// NoNullKey is a kernel that does not tell of the key of no memory.
	NoNullKey bool
	// OldBytes is for rdma-core's provider. Parts of a changed key that mean nothing hold what
	// stood in the queue before, as do those behind the number of the peer's SRQ, and so does the second word of an SRQ's doorbell record. A
	// program that allocates records itself may put two of them into a cache line.
	OldBytes bool
	// Late says that not every store to a register is seen: of two to the same place the
	// first may not be. So a store to a page is only a reason to look at the records of
	// all that uses the page.
	Late bool
}

// What the device says of itself.
const (
	mlx5BFSize     = 512
	mlx5Line       = 64
	mlx5Block      = 64 // bytes
	mlx5MaxSQDesc  = 1024
	mlx5MaxRQDesc  = 512
	mlx5MaxBlocks  = 1 << 15
	mlx5MaxRecv    = 1 << 15
	mlx5MaxSRQ     = 1<<15 - 1
	mlx5MaxCQE     = 1<<22 - 1
	mlx5Bfregs     = 16
	mlx5ContextLen = 72
	mlx5NullKey    = 0xfffff700
)

func (m *mlx5) note(format string, args ...any) {
	if !m.exited {
		m.k.device.violations.note(format, args...)
	}
}

// blame notes that memory could not be reached, as the fault of a process that still runs.
func (m *mlx5) blame(err error, format string, args ...any) {
	m.exited = m.exited || errors.Is(err, syscall.ESRCH)
	if err != nil {
		m.note(format, args...)
	}
}

func (*mlx5) limits() limits {
	l := bare{}.limits()
	d := &l.device
	d.PageSizeCap, d.MaxPkeys = 1<<64-1<<12, 128
	d.VendorId, d.VendorPartId, d.MaxQpWr, d.MaxCqe = 0x2c9, 4121, mlx5MaxBlocks, mlx5MaxCQE
	d.MaxCq, d.MaxMr, d.MaxPd, d.MaxMw, d.MaxSge, d.MaxSgeRd = 1<<24, 1<<24, 1<<24, 1<<24, 30, 30
	d.DeviceCapFlags |= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
	d.MaxSrq, d.MaxSrqWr, d.MaxSrqSge, d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.AtomicCap = 1<<23, mlx5MaxSRQ, 31, 16, 16, 1
	l.port.MaxMsgSz, l.port.GidTblLen, l.port.PkeyTblLen, l.port.Flags = 1<<30, 256, 1, 1
	l.gids = []abi.IbUverbsGidEntry{gidEntry(LinkLocalGID, 0, abi.IB_UVERBS_GID_TYPE_ROCE_V1), gidEntry(IPv4GID, 1, abi.IB_UVERBS_GID_TYPE_ROCE_V2)}
	l.clockMask, l.clockKHz, l.maxDM = mlx5ClockMask, mlx5ClockKHz, mlx5MaxDM
	l.rawCaps, l.caps = abi.IB_UVERBS_RAW_PACKET_CAP_IP_CSUM, l.caps|abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
	l.moderation = abi.IbUverbsCqModerationCaps{MaxCqModerationCount: 65535, MaxCqModerationPeriod: 4095}
	l.odp, l.odpXRC = mlx5ODP, mlx5ODP.PerTransportCaps.RcOdpCaps
	return l
}

// applyOptions has the device say of itself what the options make of it.
func (m *mlx5) applyOptions() {
	d := m.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.k.MLX5.Infiniband && !d.isInfiniBand() {
		d.limits.port.LinkLayer = linkInfiniBand
		d.limits.device.DeviceCapFlags &^= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
		d.limits.rawCaps = 0
		d.gids = []abi.IbUverbsGidEntry{gidEntry(GID, 0, abi.IB_UVERBS_GID_TYPE_IB)}
	}
}

// has leaves out what the model does not carry out.
func (m *mlx5) has(call string) bool {
	switch call {
	case "COUNTERS_CREATE":
		return false
	}
	return m.bare.has(call)
}

// mlx5Input reads the private bytes of a create call. Fewer than least are refused; behind
// what the kernel knows only zeros may stand.
func mlx5Input[T any](m *mlx5, call string, r *ioctl.Request, least int) (in T, err error) {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	all := abi.Bytes(&in)
	if len(b) < least {
		return in, syscall.EINVAL
	}
	if len(b) != len(all) {
		m.note("%s carries %d private bytes, and takes %d", call, len(b), len(all))
	}
	copy(all, b)
	return in, nil
}

func (m *mlx5) wantZero(call, what string, v uint64) {
	if v != 0 {
		m.note("%s: %s is %#x", call, what, v)
	}
}

// mlx5Answer is clipped to the room for it.
func mlx5Answer[T any](m *mlx5, call string, r *ioctl.Request, v T) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if len(b) < len(abi.Bytes(&v)) {
		m.note("%s has room for %d private bytes, and the kernel has %d", call, len(b), len(abi.Bytes(&v)))
	}
	copy(b, abi.Bytes(&v))
	return nil
}

func (m *mlx5) context(r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	o := &m.k.MLX5
	if len(b) != 8 && len(b) < 16 || o.Request > 0 && len(b) > o.Request {
		return syscall.EINVAL
	}
	m.applyOptions()
	var in abi.Mlx5IbAllocUcontextReqV2
	copy(abi.Bytes(&in), b)
	switch {
	case in.TotalNumBfregs == 0, in.TotalNumBfregs > 512, in.NumLowLatencyBfregs > in.TotalNumBfregs-1:
		return syscall.EINVAL
	case in.Flags != 0: // DEVX, for which the firmware would need general contexts
		return syscall.EINVAL
	case in.CompMask != 0 || in.Reserved0 != 0 || in.Reserved1 != 0 || in.Reserved2 != 0:
		return syscall.EOPNOTSUPP
	}
	m.dynamic = in.LibCaps&abi.MLX5_LIB_CAP_DYN_UAR != 0 && !o.StaticUARs && o.Request == 0
	if m.version = min(in.MaxCqeVersion, 1); o.CQEVersion0 {
		m.version = 0
	}
	m.uars, m.records, m.indexes, m.cqs = make(map[int64]*mlx5UAR), make(map[uint64]bool), make(map[uint32]bool), make(map[uint32]*MLX5CQ)
	m.dms = make(map[int64]mlx5DM)
	resp := abi.Mlx5IbAllocUcontextResp{
		QpTabSize: 1 << 18, BfRegSize: mlx5BFSize, CacheLineSize: mlx5Line, MaxSqDescSz: mlx5MaxSQDesc, MaxRqDescSz: mlx5MaxRQDesc,
		MaxSendWqebb: mlx5MaxBlocks, MaxRecvWr: mlx5MaxRecv, MaxSrqRecvWr: mlx5MaxSRQ, NumPorts: 1, ResponseLength: mlx5ContextLen,
		CqeVersion: m.version, CmdsSuppUhw: abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		EthMinInline: abi.MLX5_USER_INLINE_MODE_NONE, LogUarSize: 12, NumUarsPerPage: uint32(pageSize / mlx5UARSize), NumDynBfregs: 1024,
	}
	if o.NoBlueFlame {
		resp.BfRegSize = 0
	}
	if o.InlineHeaders {
		resp.EthMinInline = abi.MLX5_USER_INLINE_MODE_L2
	}
	if !o.NoClock {
		resp.ClockInfoVersions = 1
	}
	if o.NoMAC {
		resp.CmdsSuppUhw &^= abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
	}
	if !m.dynamic {
		resp.TotBfregs = mlx5Bfregs
		resp.NumDynBfregs = 0
		m.addStatic()
	}
	if !o.NoTicks {
		resp.CompMask |= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET
		resp.HcaCoreClockOffset = mlx5TicksAt
	}
	if !o.NoNullKey {
		resp.CompMask |= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY
		resp.DumpFillMkey = mlx5NullKey
	}
	m.k.nullKey = resp.DumpFillMkey
	m.told = resp
	return mlx5Answer(m, "GET_CONTEXT", r, resp)
}

func (m *mlx5) regMR(h uint32, r *ioctl.Request) (uint32, error) {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		m.note("REG_MR carries %d private bytes, and takes none", len(in))
	}
	return (h + 1) << 8, nil
}

// createAH tells the MAC, which here is made of the end of the GID.
func (m *mlx5) createAH(ah *AH, r *ioctl.Request) error {
	if m.k.MLX5.Infiniband {
		m.note("CREATE_AH on InfiniBand, where addresses are made in user space alone")
		return nil
	}
	if !room(r, 10) {
		return syscall.EINVAL
	}
	return mlx5Answer(m, "CREATE_AH", r, abi.Mlx5IbCreateAhResp{ResponseLength: 16, Dmac: mlx5MAC(ah.Attr.Grh.Dgid)})
}

func mlx5MAC(gid [16]uint8) [6]uint8 { return [6]uint8{2, gid[11], gid[12], gid[13], gid[14], gid[15]} }

// pinRecord is what the kernel does with a doorbell record: it pins the page. The cache
// line that it stands in belongs to it alone.
func (m *mlx5) pinRecord(call string, addr uint64) error {
	if addr%8 != 0 {
		m.note("%s: the doorbell record at %#x is not aligned to 8 bytes", call, addr)
	}
	if m.records[addr/mlx5Line] && !m.k.MLX5.OldBytes {
		m.note("%s: the doorbell record at %#x stands in the cache line of another", call, addr)
	}
	if err := m.k.User.Check(addr&^uint64(pageSize-1), uint64(pageSize)); err != nil {
		return err
	}
	words := []string{"first", "second"}
	if call == "SRQ_CREATE" && m.k.MLX5.OldBytes {
		words = words[:1]
	}
	for i, name := range words {
		if v := m.load(named(call), 0, addr+uint64(4*i)); v != 0 {
			m.note("%s: the %s word of a new doorbell record is %#x", call, name, v)
		}
	}
	m.records[addr/mlx5Line] = true
	return nil
}

func (m *mlx5) forgetRecord(addr uint64) { delete(m.records, addr/mlx5Line) }

// load reads a word of a record, which is big-endian.
func (m *mlx5) load(what fmt.Stringer, object uint32, addr uint64) uint32 {
	v, err := m.k.User.Load32(addr)
	if err != nil { // else the arguments are made for nothing
		m.blame(err, "%s: the doorbell record at %#x is gone", what, addr)
	}
	return uint32(m.k.crossRecord(object, int(addr%8), 4, uint64(bits.ReverseBytes32(v))))
}

// pin is what the kernel does with a queue: all of it must be there.
func (m *mlx5) pin(call string, addr, length uint64) error {
	if addr%mlx5Block != 0 {
		m.note("%s: the queue at %#x is not aligned to %d bytes", call, addr, mlx5Block)
	}
	if length == 0 {
		return nil
	}
	return m.k.User.Check(addr, length)
}

func (q *MLX5CQ) String() string { return fmt.Sprintf("CQ %d", q.Num) }
func (q *MLX5QP) String() string { return fmt.Sprintf("QP %d", q.qp.Num) }
