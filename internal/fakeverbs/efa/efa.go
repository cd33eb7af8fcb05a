// Package efa is the model of the driver and the device of Amazon's Elastic Fabric Adapter, for package
// fakeverbs.
package efa

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

func init() {
	fakeverbs.Register(&fakeverbs.Driver{
		ID: abi.RDMA_DRIVER_EFA, Limits: limits, New: open, NewShared: func() any { return newDevice() },
		LetsGo: true, DMABufs: true, QPSlots: maxQP, Methods: methods(),
	})
}

// model is a model of the driver and its device. The kernel allocates the queues, which programs map. Sends
// are copied to memory of the device (LLQ), doorbells are registers. The rules come from the kernel driver,
// from rdma-core's provider and from the layouts that both have in common. A comment marks choices where
// these are silent. Breaches of a rule are violations; see [fakeverbs.Kernel.Violations].
type model struct {
	fakeverbs.Bare
	k       *fakeverbs.Kernel
	options Options
	pages   map[int64]*page // registers, by mapping key
	keys    keys            // of registers
	sends   keys            // of doorbells of sends, and of send queues
	memory  keys            // of queues in memory
	sizes   map[int64]int   // of the queues that are mapped, in bytes, by key
	pd      uint32          // number of the last PD
	polled  bool            // the store under way was found by polling
}

// Kernel is a version of the kernel's driver.
type Kernel uint8

// The versions. The zero value is the newest.
const (
	Linux73 Kernel = iota // 64-bit request ids, completion counters; counts the users of an address
	Linux72               // flags and service levels of QPs, QUERY_MR, inline data beyond 32 bytes
	Linux61               // as it was in Linux 6.1
)

// Options are the differences between devices and their kernels. The model has no memory of the user's for CQs.
type Options struct {
	Kernel Kernel
	// NoCaps holds EFA_QUERY_DEVICE_CAPS_ bits that the device lacks.
	NoCaps uint32
	// SubCQs is the number of parts of a CQ. 0 means 1.
	SubCQs uint16
	// MaxTxBatch limits how much is copied between two doorbells, in units of 64 bytes. 0 means no limit.
	MaxTxBatch uint16
	// MinSQWR is the minimum number of entries of a send queue. 0 means none.
	MinSQWR uint16
	// NoCQDoorbell means that a CQ without a channel has no doorbell.
	NoCQDoorbell bool
	// FlushAtDestroy means that the requests of a QP in the error state are flushed when it is
	// destroyed, not before.
	FlushAtDestroy bool
	// OldBytes permits the behavior of rdma-core before version 65: responses of the kernel may be
	// shorter, without the fields that were added later.
	OldBytes bool
	// Late means that the device may miss a store to a register if another one to the same place
	// follows. So the number of new requests may exceed the batch. Registers may then be 8 bytes wide, of which
	// the lower 4 count: they are polled, and the device raises an event for each arm that a CQ's doorbell may
	// have had in between.
	Late bool
}

// The attributes of the device. They are those of a card of the first generation, but for the capabilities.
const (
	maxSQWR    = 4096
	maxRQWR    = 32768
	maxSQSGE   = 2
	maxRQSGE   = 3
	maxRDMASGE = 1
	maxRDMA    = 1 << 30
	maxQP      = 256
	maxCQ      = 512
	maxCQE     = 32768
	maxAH      = 1024
	maxMsg     = 8928
	maxLLQ     = maxSQWR * wqeSize

	inlineSize   = 32
	inlineSizeEx = 80
)

// refusedAccess holds the access to regions that no device has.
const refusedAccess = abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_MW_BIND | abi.IB_UVERBS_ACCESS_ZERO_BASED |
	abi.IB_UVERBS_ACCESS_ON_DEMAND | abi.IB_UVERBS_ACCESS_HUGETLB | abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT

func limits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	l.Caps = 0
	d := &l.Device
	d.DeviceCapFlags, d.FwVer = 0, 0
	d.VendorId, d.VendorPartId, d.HwVer, d.PageSizeCap = 0x1d0f, 0xefa1, 1, 0xfffff000
	d.MaxMrSize, d.MaxQp, d.MaxCq, d.MaxCqe, d.MaxMr, d.MaxPd, d.MaxAh = 96<<30, maxQP, maxCQ, maxCQE, 1<<18, 256, maxAH
	d.MaxQpWr, d.MaxSge, d.MaxSgeRd, d.MaxPkeys = maxSQWR, maxSQSGE, maxRDMASGE, 1
	p := &l.Port
	p.MaxMsgSz, p.GidTblLen, p.PkeyTblLen, p.Flags, p.PortCapFlags, p.LinkLayer = maxMsg, 1, 1, 0, 0, 0
	p.Lmc, p.MaxMtu, p.ActiveMtu, p.MaxVlNum = 1, 5, 5, 1 // 4096, which is not the longest message
	return l
}

func open(k *fakeverbs.Kernel) fakeverbs.Model {
	// The registers come after all queues, because a sandbox's file of queues may not reach them. Those of sends are
	// the first of them, because a sandbox looks at them last.
	const firstQueue, firstSend, firstRegister = 1, 1 << 18, 1 << 19
	return &model{k: k, pages: make(map[int64]*page), sizes: make(map[int64]int),
		keys: keys{first: firstRegister}, sends: keys{first: firstSend}, memory: keys{first: firstQueue}}
}

// caps returns the capabilities of the device that the kernel knows.
func (m *model) caps() uint32 {
	const (
		old = abi.EFA_QUERY_DEVICE_CAPS_RDMA_READ | abi.EFA_QUERY_DEVICE_CAPS_RNR_RETRY |
			abi.EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS | abi.EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID
		later = abi.EFA_QUERY_DEVICE_CAPS_DATA_POLLING_128 | abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE |
			abi.EFA_QUERY_DEVICE_CAPS_UNSOLICITED_WRITE_RECV
		newest = abi.EFA_QUERY_DEVICE_CAPS_SQ_64_BIT_REQ_ID | abi.EFA_QUERY_DEVICE_CAPS_COMP_CNTR
	)
	caps := uint32(old)
	if m.options.Kernel != Linux61 {
		caps |= later
	}
	if m.options.Kernel == Linux73 {
		caps |= newest
	}
	return caps &^ m.options.NoCaps
}

func (m *model) has(capability uint32) bool { return m.caps()&capability != 0 }

// inline returns how many bytes inline a request may have at most.
func (m *model) inline() uint32 {
	if m.options.Kernel == Linux61 {
		return inlineSize
	}
	return inlineSizeEx
}

func (m *model) subCQs() uint16 { return max(m.options.SubCQs, 1) }

// refused holds the calls that the driver lacks.
var refused = map[string]bool{
	"ALLOC_MW": true, "MW_DESTROY": true, "RESIZE_CQ": true, "MODIFY_CQ": true, "REQ_NOTIFY_CQ": true, "POST_SEND": true, "ATTACH_MCAST": true,
	"DETACH_MCAST": true, "REREG_MR": true, "ADVISE_MR": true, "SRQ_CREATE": true, "SRQ_DESTROY": true, "MODIFY_SRQ": true, "QUERY_SRQ": true,
	"OPEN_XRCD": true, "XRCD_DESTROY": true, "OPEN_QP": true, "WQ_CREATE": true, "WQ_DESTROY": true, "MODIFY_WQ": true,
	"CREATE_RWQ_IND_TBL": true, "RWQ_IND_TBL_DESTROY": true, "CREATE_FLOW": true, "FLOW_DESTROY": true, "COUNTERS_CREATE": true,
	"COUNTERS_DESTROY": true, "COUNTERS_READ": true, "DM_ALLOC": true, "DM_FREE": true, "DM_MR_REG": true,
	"DMAH_ALLOC": true, "DMAH_FREE": true, "QUERY_CONTEXT": true,
}

func (m *model) Has(call string) bool {
	switch {
	case call == "EFA_MR_QUERY":
		return m.options.Kernel != Linux61
	case counterCalls[call]:
		return m.options.Kernel == Linux73
	}
	return !refused[call]
}

func (m *model) note(format string, args ...any) { m.k.Device.Note(format, args...) }

// input reads the private bytes of a call. It refuses fewer than least bytes, and others than zeros behind the
// size bytes that the kernel knows.
func input[T any](m *model, r *ioctl.Request, least, size int) (in T, err error) {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	unknown := syscall.EOPNOTSUPP
	if m.options.Kernel == Linux61 {
		unknown = syscall.EINVAL
	}
	switch {
	case len(b) < least:
		return in, syscall.EINVAL
	case len(b) > size && !fakeverbs.IsZero(b[size:]):
		return in, unknown
	}
	copy(abi.Bytes(&in), b[:min(len(b), size)])
	return in, nil
}

// wantNoInput refuses private bytes of a method that has none. They may be zeros.
func (m *model) wantNoInput(r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	switch {
	case fakeverbs.IsZero(b):
		return nil
	case m.options.Kernel == Linux61:
		return syscall.EINVAL
	}
	return syscall.EOPNOTSUPP
}

// answer writes an answer, truncated to the available room. Bytes behind it are zero.
func answer[T any](m *model, call string, r *ioctl.Request, v T) error {
	b, ok := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	if n := len(abi.Bytes(&v)); ok && len(b) < n && !m.options.OldBytes {
		m.note("%s has room for %d private bytes, and the kernel has %d", call, len(b), n)
	}
	clear(b[copy(b, abi.Bytes(&v)):])
	return nil
}

// Context answers GET_CONTEXT. The kernel ignores bits that it doesn't know.
func (m *model) Context(r *ioctl.Request) error {
	var in abi.EfaIbvAllocUcontextCmd
	ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in)
	o := &m.options
	if o.MaxTxBatch != 0 && in.SupportedCaps&abi.EFA_ALLOC_UCONTEXT_CMD_SUPP_CAPS_TX_BATCH == 0 ||
		o.MinSQWR != 0 && in.SupportedCaps&abi.EFA_ALLOC_UCONTEXT_CMD_SUPP_CAPS_MIN_SQ_WR == 0 {
		return syscall.EOPNOTSUPP
	}
	resp := abi.EfaIbvAllocUcontextResp{
		CmdsSuppUdataMask: abi.EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE | abi.EFA_USER_CMDS_SUPP_UDATA_CREATE_AH,
		SubCqsPerCq:       m.subCQs(), InlineBufSize: inlineSize, MaxLlqSize: maxLLQ, MaxTxBatch: o.MaxTxBatch, MinSqWr: o.MinSQWR,
	}
	if o.Kernel != Linux61 {
		resp.InlineBufSizeEx = inlineSizeEx
	}
	return answer(m, "GET_CONTEXT", r, resp)
}

// QueryDevice returns the requested attributes of the device beyond the verbs.
func (m *model) QueryDevice(r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	resp := abi.EfaIbvExQueryDeviceResp{MaxSqWr: maxSQWR, MaxRqWr: maxRQWR, MaxSqSge: maxSQSGE, MaxRqSge: maxRQSGE,
		MaxRdmaSize: maxRDMA, DeviceCaps: m.caps()}
	copy(b, abi.Bytes(&resp))
	return nil
}

// AllocPD answers with the PD's number.
func (m *model) AllocPD(r *ioctl.Request) error {
	if err := m.wantNoInput(r); err != nil {
		return err
	}
	m.pd++
	return answer(m, "ALLOC_PD", r, abi.EfaIbvAllocPdResp{Pdn: uint16(m.pd)})
}

// RegMR returns the key for local access, which has 24 bits.
func (m *model) RegMR(h uint32, r *ioctl.Request) (uint32, error) {
	if err := m.wantNoInput(r); err != nil {
		return 0, err
	}
	return (h + 1) & keyMask, nil
}

// RefusedAccess returns the access to regions that the driver does not support.
func (m *model) RefusedAccess() uint32 {
	refused := uint32(refusedAccess)
	if !m.has(abi.EFA_QUERY_DEVICE_CAPS_RDMA_READ) {
		refused |= abi.IB_UVERBS_ACCESS_REMOTE_READ
	}
	if !m.has(abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE) {
		refused |= abi.IB_UVERBS_ACCESS_REMOTE_WRITE
	}
	return refused
}

// keyMask holds the bits of a key for local access.
const keyMask = 1<<24 - 1

// RKey returns the key for remote access, which is no key for local access of any region.
func (m *model) RKey(lkey uint32) uint32 { return 1<<31 | lkey<<4 | 5 }

// methods returns the methods that no other driver has.
func methods() map[[2]uint16]*fakeverbs.Method {
	return map[[2]uint16]*fakeverbs.Method{
		{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_COMP_CNTR_CAPS}: fakeverbs.NewMethod("QUERY_COMP_CNTR_CAPS", queryCounterCaps, []fakeverbs.MethodAttr{
			fakeverbs.Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, 4).Optional(),
			fakeverbs.Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, 8).Optional(),
			fakeverbs.Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, 4).Optional(),
		}),
		{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE}: fakeverbs.NewMethod("COMP_CNTR_CREATE", createCounter, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE),
			fakeverbs.InMin(abi.EFA_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, bufferDescSize),
			fakeverbs.InMin(abi.EFA_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, bufferDescSize),
		}),
		{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY}: fakeverbs.NewMethod("COMP_CNTR_DESTROY", destroyCounter,
			fakeverbs.Destroys(abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE)),
		{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_MODIFY}: fakeverbs.NewMethod("COMP_CNTR_MODIFY", modifyCounter, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE),
			fakeverbs.Enum(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY),
			fakeverbs.Enum(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP),
			fakeverbs.In(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, 8),
		}),
		{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_READ}: fakeverbs.NewMethod("COMP_CNTR_READ", readCounter, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE),
			fakeverbs.Enum(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY),
			fakeverbs.Out(abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, 8),
		}),
		{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR}: fakeverbs.NewMethod("QP_ATTACH_COMP_CNTR", attachCounter, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE),
			fakeverbs.Obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE),
			fakeverbs.Flags(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK),
		}),
		{abi.UVERBS_OBJECT_MR, abi.EFA_IB_METHOD_MR_QUERY}: fakeverbs.NewMethod("EFA_MR_QUERY", queryMR, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.EFA_IB_ATTR_QUERY_MR_HANDLE),
			fakeverbs.Out(abi.EFA_IB_ATTR_QUERY_MR_RESP_IC_ID_VALIDITY, 2),
			fakeverbs.Out(abi.EFA_IB_ATTR_QUERY_MR_RESP_RECV_IC_ID, 2),
			fakeverbs.Out(abi.EFA_IB_ATTR_QUERY_MR_RESP_RDMA_READ_IC_ID, 2),
			fakeverbs.Out(abi.EFA_IB_ATTR_QUERY_MR_RESP_RDMA_RECV_IC_ID, 2),
		}),
	}
}

// The interconnects by which the device reaches memory.
const (
	recvIC = iota + 1
	readIC
	rdmaRecvIC
)

// queryMR returns the interconnects that the device uses for a region.
func queryMR(k *fakeverbs.Kernel, r *ioctl.Request) error {
	h, _ := r.Value(abi.EFA_IB_ATTR_QUERY_MR_HANDLE)
	if _, err := k.Find("MR", uint32(h)); err != nil {
		return err
	}
	for _, a := range []struct{ id, v uint16 }{
		{abi.EFA_IB_ATTR_QUERY_MR_RESP_IC_ID_VALIDITY, abi.EFA_QUERY_MR_VALIDITY_RECV_IC_ID |
			abi.EFA_QUERY_MR_VALIDITY_RDMA_READ_IC_ID | abi.EFA_QUERY_MR_VALIDITY_RDMA_RECV_IC_ID},
		{abi.EFA_IB_ATTR_QUERY_MR_RESP_RECV_IC_ID, recvIC},
		{abi.EFA_IB_ATTR_QUERY_MR_RESP_RDMA_READ_IC_ID, readIC},
		{abi.EFA_IB_ATTR_QUERY_MR_RESP_RDMA_RECV_IC_ID, rdmaRecvIC},
	} {
		if err := fakeverbs.Answer(r, a.id, a.v); err != nil {
			return err
		}
	}
	return nil
}

// keys allocates the pages at which queues and registers are mapped, the lowest free ones first.
type keys struct {
	first int64 // page
	taken []run
}

// run is a range of pages.
type run struct{ at, n int64 }

// take returns the key of a range of bytes.
func (k *keys) take(length int) (key int64) {
	page := int64(fakeverbs.PageSize)
	n, at := (int64(length)+page-1)/page, k.first
	i := 0
	for ; i < len(k.taken) && k.taken[i].at-at < n; i++ {
		at = k.taken[i].at + k.taken[i].n
	}
	k.taken = slices.Insert(k.taken, i, run{at, n})
	return at * page
}

func (k *keys) free(key int64) {
	k.taken = slices.DeleteFunc(k.taken, func(r run) bool { return r.at == key/int64(fakeverbs.PageSize) })
}

// page is a page of registers, or the memory of a send queue.
type page struct {
	what   fmt.Stringer
	length int
	store  func(offset int, v uint64) // of a doorbell
	offset int                        // of the doorbell
	copies *QP                        // whose send queue it is, or nil
	noWC   bool                       // the doorbell needs no barrier of memory that combines writes
	from   *keys                      // where its key is from
	object uint32                     // number of the QP or CQ
	queue  fakeverbs.CrossingKind     // entries of its queue
}

// addPage adds a page and returns its key.
func (m *model) addPage(p *page) int64 {
	p.length = fakeverbs.RoundUp(max(p.length, 1))
	p.from = &m.sends
	if p.noWC {
		p.from = &m.keys
	}
	key := p.from.take(p.length)
	m.pages[key] = p
	return key
}

func (m *model) removePage(key int64) {
	if p := m.pages[key]; p != nil {
		delete(m.pages, key)
		p.from.free(key)
	}
}

// addQueue allocates the memory of a queue and returns its key.
func (m *model) addQueue(mem *fakeverbs.QueueMemory, length int) (key int64, r *mmap.Region, err error) {
	key = m.memory.take(length)
	r, err = mem.Alloc(m.k, key, length)
	if err != nil {
		m.memory.free(key)
		return 0, nil, err
	}
	m.sizes[key] = fakeverbs.RoundUp(length)
	return key, r, nil
}

// Freed frees the key of a queue.
func (m *model) Freed(key int64) {
	m.memory.free(key)
	delete(m.sizes, key)
}

// Map maps a whole queue that has been offered.
func (m *model) Map(k *fakeverbs.Kernel, key int64, length int) (*mmap.Region, error) {
	o, ok := k.Offers[key]
	if !ok || fakeverbs.RoundUp(length) != m.sizes[key] {
		return nil, syscall.EINVAL
	}
	return o.Mapped(length)
}

// MapRegisters maps whole pages that have been offered.
func (m *model) MapRegisters(_ *fakeverbs.Kernel, key int64, length int) error {
	if p := m.pages[key]; p == nil || fakeverbs.RoundUp(length) != p.length {
		return syscall.EINVAL
	}
	return nil
}

// Watch checks the kind of a store. The doorbell of sends must not pass the copies before it, nor later copies the
// doorbell.
func (m *model) Watch(key int64, s mmap.Store) {
	p := m.pages[key]
	switch {
	case p == nil:
		m.note("a store to registers that are gone, at %#x of %#x", s.Offset, key)
	case p.copies != nil && (s.Kind == mmap.StorePlain || s.Kind == mmap.StoreWC):
		m.note("%v: a store of %d bytes to the send queue, which takes 64 at a time", p.what, s.Size)
	case p.copies == nil && s.Kind == mmap.StoreCopy:
		m.note("%v: a copy to a doorbell", p.what)
	case p.copies == nil && !p.noWC && s.Kind == mmap.StorePlain:
		m.note("%v: the doorbell of sends has no barriers of memory that combines writes", p.what)
	}
}

// Store handles a store to a doorbell.
func (m *model) Store(_ *fakeverbs.Kernel, key int64, offset, size int, v uint64) {
	p := m.pages[key]
	if m.polled = m.options.Late && size == 8; m.polled {
		size, v = 4, uint64(uint32(v))
	}
	shown := fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Offset: offset, Size: size, Value: v}
	if p != nil {
		shown.Object, shown.Queue = p.object, p.queue
	}
	c := m.k.ShowCrossing(shown)
	switch {
	case c.Drop:
	case p == nil:
		if !m.options.Late { // else it existed at the time of the store
			m.note("a store to registers that are gone, at %#x of %#x", offset, key)
		}
	case p.copies != nil: // Watch has noted it
	case c.Size != 4:
		m.note("%v: a store of %d bytes to a doorbell, which takes 4", p.what, c.Size)
	case c.Offset != p.offset:
		m.note("%v: the doorbell is at %#x, not %#x", p.what, p.offset, c.Offset)
	default:
		p.store(c.Offset, c.Value)
	}
}

// Copy64 handles a store of 64 bytes to a send queue.
func (m *model) Copy64(key int64, offset int, b [64]byte) {
	if p := m.pages[key]; p != nil && p.copies != nil {
		p.copies.copied(offset, &b)
	}
}

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

func (m *model) AdjustLimits(l *fakeverbs.Limits) {
	if m.options.SubCQs > 1 {
		l.Device.VendorPartId = 0xefa0 // only the first generation has them
	}
}
