// Package mlx5 is the model of the mlx5 driver and its device, for package fakeverbs.
package mlx5

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

func init() {
	fakeverbs.Register(&fakeverbs.Driver{
		ID: abi.RDMA_DRIVER_MLX5, Limits: limits, FirstQPN: 2, New: open, NewShared: func() any { return new(device) },
		LetsGo: true, RoCE: true, RateLimits: true, DMABufs: true, Methods: methods(), Own: map[uint16]bool{abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX: true},
		Refusals: map[string]fakeverbs.Refusal{"GET_CONTEXT": {In: 8, Err: syscall.EINVAL}, "ALLOC_PD": {Out: 4, Err: syscall.EFAULT}},
	})
}

func open(k *fakeverbs.Kernel) fakeverbs.Model {
	m := &model{k: k}
	m.options.Infiniband = k.Device.IsInfiniBand()
	return m
}

// device is the state that all openings of a device share. The device's lock guards it.
type device struct {
	// Number of objects that were created. Their numbers are never reused.
	cqs, srqs, pds uint32
	dms            pages
}

func shared(d *fakeverbs.Device) *device { return d.Shared.(*device) }

// model is a model of the mlx5 driver of Linux 6.12 and of its device. Queues and doorbell records are user
// memory, doorbells are registers of UARs. The rules come from the kernel driver's structures and from the
// device's documentation. Errors of user space are violations; see [fakeverbs.Kernel.Violations].
type model struct {
	fakeverbs.Bare
	k        *fakeverbs.Kernel
	options  Options
	version  uint8 // version of completions
	answered abi.Mlx5IbAllocUcontextResp
	dynamic  bool
	uars     map[int64]*uar // by mapping key
	lastUAR  uint32
	perPage  int             // UARs per page
	log      int             // logarithm of a UAR's size
	static   uint32          // number of static registers
	nextReg  uint32          // static register for the next QP
	records  map[uint64]bool // cache lines of records in use
	indexes  map[uint32]bool // indexes of queue pairs in use
	shared   bool            // shared by processes, each of which has its own indexes
	cqs      map[uint32]*CQ
	dms      map[int64]mlx5DM // by mapping key
	part     []byte           // buffer for reading new queues
	weak     []weakWords
	clock    clock
	exited   bool // the process has ended, so its unfinished work is no violation
}

// Options are the differences between mlx5 devices and their kernels.
type Options struct {
	Infiniband bool
	NoAtomics  bool
	// NoTSO means that the device doesn't support TCP segmentation, and that the kernel adds nothing
	// to a device's attributes.
	NoTSO bool
	// NoChecksums means that the device doesn't fill in checksums of raw packets.
	NoChecksums bool
	// StaticUARs means that the kernel has no dynamic UARs. NoBlueFlame means that the processor can't
	// combine writes, so there are no registers for copies. NoWC means that there are registers, but
	// the kernel refuses UARs for copies.
	StaticUARs, NoBlueFlame, NoWC bool
	// CQEVersion0 means that completions identify queue pairs by number.
	CQEVersion0 bool
	// InlineHeaders means that a request must contain the Ethernet header of a raw packet.
	InlineHeaders bool
	// Request is the maximum length of the kernel's request for a context. 0 means no maximum.
	Request int
	// Registers is the minimum number of registers of a kernel without dynamic UARs.
	Registers uint32
	// FirstUAR is the number of the first dynamic UAR.
	FirstUAR uint32
	// NoClock means that the kernel lacks the page for converting ticks to times.
	NoClock bool
	// NoMAC means that the kernel doesn't return the MAC of an address.
	NoMAC bool
	// NoTicks means that programs can't read the device's clock.
	NoTicks bool
	// NoECE means that the device does not support enhanced connection establishment (ECE).
	NoECE bool
	// NoBursts means that the device's rate limits have no bursts.
	NoBursts bool
	// SRQFaults means that the device at first finds the memory of an SRQ's receive missing, if it is
	// in a region with on-demand paging.
	SRQFaults bool
	// NoDCT means that the device has no dynamically connected transport.
	NoDCT bool
	// NoStreams means that the device's DCIs have no streams.
	NoStreams bool
	// NoNullKey means that the kernel doesn't return the key of no memory.
	NoNullKey bool
	// OldBytes permits the behavior of rdma-core's provider. Unused bytes may have the former contents of the memory:
	// in changes of keys, after the number of the peer's SRQ, at the places of immediate data and of values to compare,
	// and in the second word of an SRQ's doorbell record. A program that allocates records itself may put two of them
	// into a cache line, and one that links an SRQ's entries itself may keep notes in their reserved bytes, which the
	// device does not read. One that builds requests itself may put SGEs after inline data. The requests of a DCI
	// without streams may name a stream.
	OldBytes bool
	// WeakLoads means that the processor may load the words of a completion at any time after the
	// last load barrier. The device writes the word with the owner bit last, but the other words may be
	// old until there is a barrier.
	WeakLoads bool
	// Late means that the device may miss a store to a register if another one to the same place
	// follows. So a store to a page only makes the device read the records of all objects that use
	// the page.
	Late bool
}

// The attributes of the device.
const (
	bfSize     = 512
	line       = 64
	block      = 64 // in bytes
	maxSQDesc  = 1024
	maxRQDesc  = 512
	maxBlocks  = 1 << 15
	maxRecv    = 1 << 15
	maxSRQ     = 1<<15 - 1
	maxCQE     = 1<<22 - 1
	contextLen = 72
	nullKey    = 0xfffff700

	maxLogStreams, maxLogErrored = 4, 4 // of a DCI

	maxTSO           = 1 << 18
	minRate, maxRate = 1, 100_000_000 // kbit/s

	askECE = 1 << 28
	ECE    = 0x3 // the options that the device supports
)

func (m *model) note(format string, args ...any) {
	if !m.exited {
		m.k.Device.Note(format, args...)
	}
}

// blame records a violation because memory doesn't exist, unless the process has ended.
func (m *model) blame(err error, format string, args ...any) {
	m.exited = m.exited || errors.Is(err, syscall.ESRCH)
	if err != nil {
		m.note(format, args...)
	}
}

func limits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	d := &l.Device
	d.FwVer = 16<<32 | 35<<16 | 3006
	d.PageSizeCap, d.MaxPkeys = 1<<64-1<<12, 128
	d.VendorId, d.VendorPartId, d.MaxQpWr, d.MaxCqe = 0x2c9, 4121, maxBlocks, maxCQE
	d.MaxCq, d.MaxMr, d.MaxPd, d.MaxMw, d.MaxSge, d.MaxSgeRd = 1<<24, 1<<24, 1<<24, 1<<24, 30, 30
	d.DeviceCapFlags |= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
	d.MaxSrq, d.MaxSrqWr, d.MaxSrqSge, d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.AtomicCap = 1<<23, maxSRQ, 31, 16, 16, 1
	l.Port.MaxMsgSz, l.Port.GidTblLen, l.Port.PkeyTblLen, l.Port.Flags = 1<<30, 256, 1, 1
	l.GIDs = []abi.IbUverbsGidEntry{fakeverbs.GIDEntry(fakeverbs.LinkLocalGID, 0, abi.IB_UVERBS_GID_TYPE_ROCE_V1), fakeverbs.GIDEntry(fakeverbs.IPv4GID, 1, abi.IB_UVERBS_GID_TYPE_ROCE_V2)}
	l.ClockMask, l.ClockKHz, l.MaxDM = clockMask, clockKHz, maxDM
	l.RawCaps, l.Caps = abi.IB_UVERBS_RAW_PACKET_CAP_IP_CSUM|abi.IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING, l.Caps|abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
	l.Moderation = abi.IbUverbsCqModerationCaps{MaxCqModerationCount: 65535, MaxCqModerationPeriod: 4095}
	l.RSS = abi.IbUverbsRssCaps{SupportedQpts: 1 << abi.IB_UVERBS_QPT_RAW_PACKET, MaxRwqIndirectionTables: 1 << 20, MaxRwqIndirectionTableSize: 1 << 11}
	l.ODP, l.ODPXRC = odp, odp.PerTransportCaps.RcOdpCaps
	return l
}

// applyOptions changes the device's attributes according to the options.
func (m *model) applyOptions() {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	if m.options.Infiniband && !d.IsInfiniBand() {
		d.Limits.Port.LinkLayer = fakeverbs.LinkInfiniBand
		d.Limits.Device.DeviceCapFlags &^= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
		d.Limits.RawCaps = 0
		d.GIDTable = []abi.IbUverbsGidEntry{fakeverbs.GIDEntry(fakeverbs.GID, 0, abi.IB_UVERBS_GID_TYPE_IB)}
	}
}

// input reads the private bytes of a create call. It refuses fewer than least bytes. Only zeros may follow
// the bytes that the kernel knows.
func input[T any](m *model, call string, r *ioctl.Request, least int) (in T, err error) {
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

func (m *model) wantZero(call, what string, v uint64) {
	if v != 0 {
		m.note("%s: %s is %#x", call, what, v)
	}
}

// answer writes an answer, truncated to the available room.
func answer[T any](m *model, call string, r *ioctl.Request, v T) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if len(b) < len(abi.Bytes(&v)) {
		m.note("%s has room for %d private bytes, and the kernel has %d", call, len(b), len(abi.Bytes(&v)))
	}
	copy(b, abi.Bytes(&v))
	return nil
}

// AllocPD answers with the PD's number.
func (m *model) AllocPD(r *ioctl.Request) error {
	d := shared(m.k.Device)
	d.pds++
	return answer(m, "ALLOC_PD", r, abi.Mlx5IbAllocPdResp{Pdn: d.pds - 1})
}

func (m *model) Context(r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	o := &m.options
	if len(b) != 8 && len(b) < 16 || o.Request > 0 && len(b) > o.Request {
		return syscall.EINVAL
	}
	m.applyOptions()
	var in abi.Mlx5IbAllocUcontextReqV2
	copy(abi.Bytes(&in), b)
	switch {
	case in.TotalNumBfregs == 0, in.TotalNumBfregs > 512, in.NumLowLatencyBfregs > in.TotalNumBfregs-1:
		return syscall.EINVAL
	case in.Flags != 0: // DEVX, which needs general contexts in the firmware
		return syscall.EINVAL
	case in.CompMask != 0 || in.Reserved0 != 0 || in.Reserved1 != 0 || in.Reserved2 != 0:
		return syscall.EOPNOTSUPP
	}
	const caps = abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR
	if len(b) >= 24 && in.MaxCqeVersion < 1 || len(b) >= 32 && in.LibCaps&caps != caps {
		m.note("GET_CONTEXT asks for completions of version %d and has capabilities %#x: a library of long ago", in.MaxCqeVersion, in.LibCaps)
	}
	m.dynamic = in.LibCaps&abi.MLX5_LIB_CAP_DYN_UAR != 0 && !o.StaticUARs && o.Request == 0
	if m.version = min(in.MaxCqeVersion, 1); o.CQEVersion0 {
		m.version = 0
	}
	m.perPage, m.log = 1, bits.TrailingZeros(uint(m.k.PageSize()))
	if in.LibCaps&abi.MLX5_LIB_CAP_4K_UAR != 0 {
		m.perPage, m.log = m.k.PageSize()/uarSize, bits.TrailingZeros(uarSize)
	}
	m.uars, m.records, m.indexes, m.cqs = make(map[int64]*uar), make(map[uint64]bool), make(map[uint32]bool), make(map[uint32]*CQ)
	m.dms = make(map[int64]mlx5DM)
	resp := abi.Mlx5IbAllocUcontextResp{
		QpTabSize: 1 << 18, BfRegSize: bfSize, CacheLineSize: line, MaxSqDescSz: maxSQDesc, MaxRqDescSz: maxRQDesc,
		MaxSendWqebb: maxBlocks, MaxRecvWr: maxRecv, MaxSrqRecvWr: maxSRQ, NumPorts: 1, ResponseLength: contextLen,
		CqeVersion: m.version, CmdsSuppUhw: abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		EthMinInline: abi.MLX5_USER_INLINE_MODE_NONE, LogUarSize: uint32(m.log), NumUarsPerPage: uint32(m.perPage), NumDynBfregs: 1024,
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
	if o.NoTSO {
		resp.CmdsSuppUhw &^= abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE
	}
	if o.NoMAC {
		resp.CmdsSuppUhw &^= abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
	}
	if !m.dynamic {
		resp.TotBfregs, resp.NumDynBfregs = m.addStatic(max(in.TotalNumBfregs, o.Registers)), 0
	}
	if !o.NoTicks {
		resp.CompMask |= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET
		resp.HcaCoreClockOffset = ticksAt
	}
	if !o.NoECE {
		resp.CompMask |= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE
	}
	if !o.NoNullKey {
		resp.CompMask |= abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY
		resp.DumpFillMkey = nullKey
	}
	m.k.NullKey = resp.DumpFillMkey
	m.answered = resp
	return answer(m, "GET_CONTEXT", r, resp)
}

// hashFields is the set of the addresses of IPv4 and IPv6 and the ports of TCP and UDP.
const hashFields = 0xff

// QueryDevice returns the requested attributes of the device beyond the verbs.
func (m *model) QueryDevice(r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	switch {
	case len(b) == 0 || m.options.NoTSO:
		return nil
	case len(b) < 8:
		return syscall.EINVAL
	}
	resp := abi.Mlx5IbQueryDeviceResp{ResponseLength: uint32(len(abi.Bytes(new(abi.Mlx5IbQueryDeviceResp))))}
	if !m.options.Infiniband {
		const raw = 1 << abi.IB_UVERBS_QPT_RAW_PACKET
		resp.TsoCaps = abi.Mlx5IbTsoCaps{MaxTso: maxTSO, SupportedQpts: raw}
		resp.RssCaps = abi.Mlx5IbRssCaps{RxHashFunction: abi.MLX5_RX_HASH_FUNC_TOEPLITZ, RxHashFieldsMask: hashFields}
		resp.PacketPacingCaps = abi.Mlx5PacketPacingCaps{QpRateLimitMin: minRate, QpRateLimitMax: maxRate, SupportedQpts: raw,
			CapFlags: abi.MLX5_IB_PP_SUPPORT_BURST}
		if m.options.NoBursts {
			resp.PacketPacingCaps.CapFlags = 0
		}
	}
	if !m.options.NoDCT && !m.options.NoStreams {
		resp.DciStreamsCaps = abi.Mlx5IbDciStreamsCaps{MaxLogNumConcurent: maxLogStreams, MaxLogNumErrored: maxLogErrored}
	}
	copy(b, abi.Bytes(&resp))
	return nil
}

func (m *model) RegMR(h uint32, r *ioctl.Request) (uint32, error) {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		m.note("REG_MR carries %d private bytes, and takes none", len(in))
	}
	return (h + 1) << 8, nil
}

// CreateAH returns the MAC of an address, which the model derives from the end of the GID.
func (m *model) CreateAH(ah *fakeverbs.AH, r *ioctl.Request) error {
	if m.options.Infiniband {
		m.note("CREATE_AH on InfiniBand, where addresses are made in user space alone")
		return nil
	}
	if !fakeverbs.HasRoom(r, 10) {
		return syscall.EINVAL
	}
	return answer(m, "CREATE_AH", r, abi.Mlx5IbCreateAhResp{ResponseLength: 16, Dmac: mlx5MAC(ah.Attr.Grh.Dgid)})
}

func mlx5MAC(gid [16]uint8) [6]uint8 { return [6]uint8{2, gid[11], gid[12], gid[13], gid[14], gid[15]} }

// pinRecord pins the page of a doorbell record, as the kernel does. The record must not share its cache line.
func (m *model) pinRecord(call string, addr uint64) error {
	if addr%8 != 0 {
		m.note("%s: the doorbell record at %#x is not aligned to 8 bytes", call, addr)
	}
	if m.records[addr/line] && !m.options.OldBytes {
		m.note("%s: the doorbell record at %#x stands in the cache line of another", call, addr)
	}
	if err := m.k.User.Check(addr&^uint64(m.k.PageSize()-1), uint64(m.k.PageSize())); err != nil {
		return err
	}
	words := []string{"first", "second"}
	if call == "SRQ_CREATE" && m.options.OldBytes {
		words = words[:1]
	}
	for i, name := range words {
		if v := m.load(named(call), 0, addr+uint64(4*i)); v != 0 {
			m.note("%s: the %s word of a new doorbell record is %#x", call, name, v)
		}
	}
	m.records[addr/line] = true
	return nil
}

func (m *model) forgetRecord(addr uint64) { delete(m.records, addr/line) }

// load reads a word of a record, which is big-endian.
func (m *model) load(what fmt.Stringer, object uint32, addr uint64) uint32 {
	v, err := m.k.User.Load32(addr)
	if err != nil { // avoids the allocation of the arguments
		m.blame(err, "%s: the doorbell record at %#x is gone", what, addr)
	}
	return uint32(m.k.CrossRecord(object, int(addr%8), 4, uint64(bits.ReverseBytes32(v))))
}

// pin pins a queue, as the kernel does. All of its memory must exist.
func (m *model) pin(call string, addr, length uint64) error {
	if addr%block != 0 {
		m.note("%s: the queue at %#x is not aligned to %d bytes", call, addr, block)
	}
	if length == 0 {
		return nil
	}
	return m.k.User.Check(addr, length)
}

func (q *CQ) String() string { return fmt.Sprintf("CQ %d", q.Num) }
func (q *QP) String() string { return fmt.Sprintf("QP %d", q.qp.Num) }

func (m *model) QueryContext(r *ioctl.Request) {
	b, _ := r.Bytes(abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX)
	clear(b[copy(b, abi.Bytes(&m.answered)):])
	m.shared = true
}

// queryPD returns the device's number of a PD.
func queryPD(k *fakeverbs.Kernel, r *ioctl.Request) error {
	h, _ := r.Value(abi.MLX5_IB_ATTR_QUERY_PD_HANDLE)
	if _, err := k.Find("PD", uint32(h)); err != nil {
		return err
	}
	return fakeverbs.Answer(r, abi.MLX5_IB_ATTR_QUERY_PD_RESP_PDN, uint32(h)+1)
}

// odp holds the capabilities of mlx5 devices for on-demand paging.
var odp = func() (c abi.IbUverbsOdpCaps) {
	const all = abi.IB_ODP_SUPPORT_SEND | abi.IB_ODP_SUPPORT_RECV | abi.IB_ODP_SUPPORT_WRITE | abi.IB_ODP_SUPPORT_READ |
		abi.IB_ODP_SUPPORT_ATOMIC | abi.IB_ODP_SUPPORT_SRQ_RECV
	c.GeneralCaps = abi.IB_ODP_SUPPORT | abi.IB_ODP_SUPPORT_IMPLICIT
	c.PerTransportCaps.RcOdpCaps, c.PerTransportCaps.UdOdpCaps = all, abi.IB_ODP_SUPPORT_SEND
	return c
}()

// OptionsOf returns the options of an opening, to be set before use, or nil if its
// device is another driver's.
func OptionsOf(k *fakeverbs.Kernel) *Options {
	if m, ok := k.Model.(*model); ok {
		return &m.options
	}
	return nil
}

// CQOf returns the device's side of a completion queue, or nil.
func CQOf(cq *fakeverbs.CQ) *CQ {
	q, _ := cq.Queue.(*CQ)
	return q
}

// QPOf returns the device's side of a queue pair, or nil.
func QPOf(qp *fakeverbs.QP) *QP {
	q, _ := qp.Made.(*QP)
	return q
}

// SRQOf returns the device's side of a shared receive queue, or nil.
func SRQOf(srq *fakeverbs.SRQ) *SRQ {
	q, _ := srq.Queue.(*SRQ)
	return q
}

// IsArmed implements [fakeverbs.CQQueue].
func (q *CQ) IsArmed() bool { return q.armed }

func (m *model) AdjustLimits(l *fakeverbs.Limits) {
	if m.options.Infiniband {
		l.RSS = abi.IbUverbsRssCaps{}
	}
	if m.options.NoAtomics {
		l.Device.AtomicCap = 0
	}
	if m.options.NoChecksums {
		l.Device.DeviceCapFlags &^= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
		l.Caps &^= abi.IB_UVERBS_DEVICE_RAW_IP_CSUM
		l.RawCaps &^= abi.IB_UVERBS_RAW_PACKET_CAP_IP_CSUM
	}
}

// named is a Stringer that returns its own text.
type named string

func (n named) String() string { return string(n) }
