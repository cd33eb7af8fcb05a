package fakeverbs

import (
	"encoding/binary"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

type pd struct{}

// pdModel is a model whose driver answers ALLOC_PD with private bytes.
type pdModel interface{ AllocPD(*ioctl.Request) error }

func (k *Kernel) allocPD(r *ioctl.Request) error {
	if err := k.insist("ALLOC_PD", r); err != nil {
		return err
	}
	if m, ok := k.Model.(pdModel); ok {
		if err := m.AllocPD(r); err != nil {
			return err
		}
	}
	return respond(r, abi.IbUverbsAllocPdResp{PdHandle: k.Add("PD", pd{}, nothing)})
}

func (k *Kernel) destroyPD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)
	return k.Remove("PD", uint32(h))
}

// MR is the kernel's side of a memory region.
type MR struct {
	PD            uint32 // handle of the PD
	Start, Length uint64
	Access        uint32
	Key           uint32
	DM            *DM    // device memory of the region, or nil
	Offset        uint64 // offset in DM
	DMAH          *DMAH  // DMA handle that it was registered with, or nil

	ended bool // a work request has invalidated it
}

func (k *Kernel) regMR(r *ioctl.Request) error {
	if err := k.insist("REG_MR", r); err != nil {
		return err
	}
	in := request[abi.IbUverbsRegMr](r)
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	paged := in.AccessFlags&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0
	whole := paged && in.Start == 0 && in.Length == math.MaxUint64
	if in.Length == 0 || (in.Start^in.HcaVa)&uint64(PageSize-1) != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(in.AccessFlags); err != nil {
		return err
	}
	if whole && (in.HcaVa != 0 || k.limits().ODP.GeneralCaps&abi.IB_ODP_SUPPORT_IMPLICIT == 0) {
		return syscall.EINVAL
	}
	if err := k.User.Check(in.Start, in.Length); err != nil && !whole {
		return err
	}
	pages := int64((in.Start+in.Length+uint64(PageSize)-1)/uint64(PageSize)-in.Start/uint64(PageSize)) * int64(PageSize)
	if paged {
		pages = 0
	}
	if err := k.pin(pages); err != nil {
		return err
	}
	mr := &MR{PD: in.PdHandle, Start: in.HcaVa, Length: in.Length, Access: in.AccessFlags}
	unmap, err := k.moved(&in)
	if err != nil {
		_ = k.pin(-pages)
		return err
	}
	h, err := k.enlist(mr, r, func() { _ = k.pin(-pages); unmap() }, parent)
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsRegMrResp{MrHandle: h, Lkey: mr.Key, Rkey: mr.Key})
}

// enlist adds a region to the kernel's objects, with a key that the driver chooses. The end of the object
// calls undo.
func (k *Kernel) enlist(mr *MR, r *ioctl.Request, undo func(), parents ...*object) (handle uint32, err error) {
	h := k.Add("MR", mr, func() { delete(k.keys, mr.Key); undo() }, parents...)
	if mr.Key, err = k.Model.RegMR(h, r); err != nil {
		_ = k.Remove("MR", h)
		return 0, err
	}
	k.keys[mr.Key] = mr
	return h, nil
}

// answerMR answers with the handle of a new region, and with its key as both lkey and rkey.
func answerMR(r *ioctl.Request, mr *MR, h uint32, handle, lkey, rkey uint16) error {
	r.SetObject(handle, h)
	if err := Answer(r, lkey, mr.Key); err != nil {
		return err
	}
	return Answer(r, rkey, mr.Key)
}

// moved makes memory visible to the device at an address that differs from that of the process. It can't
// do that for memory of another process.
func (k *Kernel) moved(in *abi.IbUverbsRegMr) (undo func(), err error) {
	if in.HcaVa == in.Start {
		return nothing, nil
	}
	if k.User != Memory(&k.lent) {
		return nil, syscall.EOPNOTSUPP
	}
	return k.lent.alias(in.Start, in.Length, in.HcaVa)
}

func (k *Kernel) pin(bytes int64) error {
	if k.Pin == nil {
		return nil
	}
	return k.Pin(bytes)
}

// OptionalAccess is the set of access flags that a device may ignore.
const OptionalAccess = 0x3ff00000

// checkAccess makes the checks of ib_check_mr_access and those of the driver.
func (k *Kernel) checkAccess(access uint32) error {
	const (
		remote   = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
		known    = 0x3ff | OptionalAccess
		onDemand = abi.IB_UVERBS_ACCESS_ON_DEMAND
	)
	switch {
	case access&remote != 0 && access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0, access&^known != 0:
		return syscall.EINVAL
	case access&onDemand != 0 && !k.onDemand(), access&k.Device.driver.RefusedAccess != 0:
		return syscall.EOPNOTSUPP
	}
	return nil
}

// reregMR changes the PD or the access, which is all that drivers in software support.
func (k *Kernel) reregMR(r *ioctl.Request) error {
	in := request[abi.IbUverbsReregMr](r)
	switch {
	case in.Flags == 0:
		return syscall.EINVAL
	case in.Flags&^(abi.IB_MR_REREG_PD|abi.IB_MR_REREG_ACCESS) != 0:
		return syscall.EOPNOTSUPP
	}
	o, mr, err := find[*MR](k, "MR", in.MrHandle)
	if err != nil {
		return err
	}
	if in.Flags&abi.IB_MR_REREG_ACCESS != 0 {
		if err := k.checkAccess(in.AccessFlags); err != nil {
			return err
		}
	}
	if in.Flags&abi.IB_MR_REREG_PD != 0 {
		pd, err := k.Find("PD", in.PdHandle)
		if err != nil {
			return err
		}
		o.uses[0].refs--
		pd.refs++
		o.uses[0], mr.PD = pd, in.PdHandle
	}
	if in.Flags&abi.IB_MR_REREG_ACCESS != 0 {
		mr.Access = in.AccessFlags | mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND // this flag can't change
	}
	return respond(r, abi.IbUverbsReregMrResp{Lkey: mr.Key, Rkey: mr.Key})
}

// adviseMR handles advice. The core accepts it for all drivers, including those that ignore it.
func (k *Kernel) adviseMR(r *ioctl.Request) error {
	pd, _ := r.Value(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE)
	if _, err := k.Find("PD", uint32(pd)); err != nil {
		return err
	}
	if !k.onDemand() {
		return syscall.EOPNOTSUPP
	}
	advice, _ := r.Value(abi.UVERBS_ATTR_ADVISE_MR_ADVICE)
	sges, _ := r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST)
	if advice > abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || len(sges)%16 != 0 {
		return syscall.EINVAL
	}
	for ; len(sges) > 0; sges = sges[16:] {
		if err := k.prefetch(uint32(pd), advice, sges); err != nil {
			return err
		}
	}
	return nil
}

// prefetch refuses SGEs as drivers of hardware do. The key must belong to a region of the PD with on-demand
// paging, which must contain the memory, and be writable if the advice requires that.
func (k *Kernel) prefetch(pd uint32, advice uint64, sge []byte) error {
	addr, length := binary.NativeEndian.Uint64(sge), binary.NativeEndian.Uint32(sge[8:])
	mr := k.keys[binary.NativeEndian.Uint32(sge[12:])]
	switch {
	case mr == nil || mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND == 0:
		return syscall.ENOENT
	case mr.PD != pd, advice == abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
		return syscall.EPERM
	case !mr.covers(addr, uint64(length)) || k.User.Check(addr, uint64(length)) != nil:
		return syscall.EFAULT
	}
	return nil
}

func (k *Kernel) destroyMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)
	return k.Remove("MR", uint32(h))
}

// MRs returns the memory regions, oldest handle first.
func (k *Kernel) MRs() []*MR { return bodies[*MR](k) }

// dmaBufAccess is the access that the core permits for a region of a dma-buf.
const dmaBufAccess = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_WRITE |
	abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_RELAXED_ORDERING

// regDMABuf registers a file as a dma-buf. The device finds the memory at iova. It doesn't support
// descriptors of other processes.
func (k *Kernel) regDMABuf(r *ioctl.Request) error {
	if !k.Device.driver.DMABufs || k.User != Memory(&k.lent) {
		return syscall.EOPNOTSUPP
	}
	pd, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE)
	parent, err := k.Find("PD", uint32(pd))
	if err != nil {
		return err
	}
	offset, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET)
	length, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH)
	iova, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA)
	fd, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_FD)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS)
	if page := uint64(PageSize - 1); offset&page != iova&page || access&^dmaBufAccess != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(uint32(access)); err != nil {
		return err
	}
	start := offset &^ uint64(PageSize-1)
	region, err := exported(int(int32(fd)), start, offset-start, length)
	if err != nil {
		return err
	}
	mr := &MR{PD: uint32(pd), Start: iova, Length: length, Access: uint32(access)}
	k.lent.add(piece{iova - (offset - start), region, true})
	h, err := k.enlist(mr, r, func() { _ = region.Close() }, parent)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)
}

// queryMR returns the attributes of a region. The core supports it for all drivers.
func (k *Kernel) queryMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_QUERY_MR_HANDLE)
	_, mr, err := find[*MR](k, "MR", uint32(h))
	if err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, mr.Key); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, mr.Key); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mr.Length); err != nil {
		return err
	}
	if _, ok := r.Bytes(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA); !ok {
		return nil
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, mr.Start)
}

// firstMW is the index in the key of the first window.
const firstMW = 1 << 19

// MW is the kernel's side of a memory window.
type MW struct {
	Type uint8
	RKey uint32
	// Bound is the window's binding, or nil if it isn't bound.
	Bound *Binding

	pd uint32 // handle of the PD
	qp *QP    // queue pair that bound it
}

// to reports whether the peer of a queue pair may use the window. A window of type 1 belongs to a PD, one of
// type 2 to a queue pair.
func (mw *MW) to(qp *QP) bool {
	return mw.Bound != nil && (mw.Type == 1 && mw.pd == qp.PD || mw.qp == qp)
}

func (mw *MW) covers(addr, length uint64) bool {
	b := mw.Bound
	return addr >= b.Addr && addr-b.Addr <= b.Length && length <= b.Length-(addr-b.Addr)
}

func (k *Kernel) allocMW(r *ioctl.Request) error {
	in := request[abi.IbUverbsAllocMw](r)
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	if in.MwType != 1 && in.MwType != 2 {
		return syscall.EINVAL
	}
	mw := &MW{Type: in.MwType, pd: in.PdHandle}
	h := k.Add("MW", mw, func() { delete(k.windows, mw.RKey) }, parent)
	mw.RKey = (firstMW+h)<<8 | 0x5a
	k.windows[mw.RKey] = mw
	return respond(r, abi.IbUverbsAllocMwResp{MwHandle: h, Rkey: mw.RKey})
}

func (k *Kernel) destroyMW(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MW_HANDLE)
	return k.Remove("MW", uint32(h))
}

// MWs returns the memory windows, lowest handle first.
func (k *Kernel) MWs() []*MW { return bodies[*MW](k) }

// DM is device memory.
type DM struct {
	Length   uint64
	LogAlign uint32

	memory lent   // the bytes, at address 0
	Start  uint64 // offset of the DM in memory
	Page   uint16 // first page in the device's memory
}

// SetMemory sets the memory of the DM.
func (dm *DM) SetMemory(r *mmap.Region) { dm.memory.add(piece{0, r, true}) }

// Read reads bytes of the DM.
func (dm *DM) Read(offset uint64, b []byte) error { return dm.memory.Read(dm.Start+offset, b) }

// dmModel is a model with device memory. For other models the fake only counts it.
type dmModel interface {
	AllocDM(dm *DM, r *ioctl.Request) (free func(), err error)
	// DMAccess returns the access flags that a region of device memory may have.
	DMAccess() uint64
}

// AllocDMAttrs holds the attributes of DM_ALLOC that all drivers have.
var AllocDMAttrs = []MethodAttr{
	Obj(abi.UVERBS_ATTR_ALLOC_DM_HANDLE),
	in(abi.UVERBS_ATTR_ALLOC_DM_LENGTH, 8),
	in(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4),
}

// AllocDM permits any allocation up to the size of the device's memory, unless the model manages the memory.
func (k *Kernel) AllocDM(r *ioctl.Request) error {
	length, _ := r.Value(abi.UVERBS_ATTR_ALLOC_DM_LENGTH)
	align, _ := r.Value(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT)
	switch {
	case length == 0, align > 63:
		return syscall.EINVAL
	case length > k.Device.Limits.MaxDM:
		return syscall.ENOMEM
	}
	dm, free := &DM{Length: length, LogAlign: uint32(align)}, nothing
	if m, ok := k.Model.(dmModel); ok {
		var err error
		if free, err = m.AllocDM(dm, r); err != nil {
			return err
		}
	}
	r.SetObject(abi.UVERBS_ATTR_ALLOC_DM_HANDLE, k.Add("DM", dm, free))
	return nil
}

func (k *Kernel) freeDM(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_FREE_DM_HANDLE)
	return k.Remove("DM", uint32(h))
}

// regDM requires a region whose addresses begin at 0.
func (k *Kernel) regDM(r *ioctl.Request) error {
	parent, _, err := FindIn[pd](k, "PD", r, abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE)
	if err != nil {
		return err
	}
	o, dm, err := FindIn[*DM](k, "DM", r, abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE)
	if err != nil {
		return err
	}
	offset, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_OFFSET)
	length, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_LENGTH)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS)
	if m, ok := k.Model.(dmModel); ok && access&^m.DMAccess() != 0 {
		return syscall.EINVAL
	}
	if access&abi.IB_UVERBS_ACCESS_ZERO_BASED == 0 || offset > dm.Length || length > dm.Length-offset {
		return syscall.EINVAL
	}
	if err := k.checkAccess(uint32(access)); err != nil {
		return err
	}
	pd, _ := r.Value(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE)
	mr := &MR{PD: uint32(pd), Length: length, Access: uint32(access), DM: dm, Offset: offset}
	h, err := k.enlist(mr, r, nothing, parent, o)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_DM_MR_HANDLE, abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY)
}

// DMs returns the allocated device memory, lowest handle first.
func (k *Kernel) DMs() []*DM { return bodies[*DM](k) }

// DMAH is a DMA handle with the hints that were given.
type DMAH struct {
	CPU                   uint32
	MemType, PH           uint8
	HasCPU, HasMem, HasPH bool
}

// newest holds the calls that Linux 7.2 and later add.
var newest = map[string]bool{"QUERY_PORT_SPEED": true, "DMAH_ALLOC": true, "DMAH_FREE": true, "REG_MR_FOR": true,
	"QUERY_COMP_CNTR_CAPS": true, "COMP_CNTR_CREATE": true, "COMP_CNTR_DESTROY": true, "COMP_CNTR_MODIFY": true, "COMP_CNTR_READ": true, "QP_ATTACH_COMP_CNTR": true}

// newestMethods holds the methods of these calls.
var newestMethods = map[[2]uint16]*Method{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED}: {"QUERY_PORT_SPEED", (*Kernel).queryPortSpeed, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM),
		Out(abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, 8),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_COMP_CNTR_CAPS}: {"QUERY_COMP_CNTR_CAPS", (*Kernel).queryCompCounterCaps, []MethodAttr{
		Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, 4),
		Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, 8),
		Out(abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, 4),
	}},
	{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_CREATE}: {"COMP_CNTR_CREATE", (*Kernel).createCompCounter,
		udata(Obj(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE))},
	{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_DESTROY}: {"COMP_CNTR_DESTROY", (*Kernel).destroyCompCounter,
		Destroys(abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE)},
	{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_MODIFY}: {"COMP_CNTR_MODIFY", (*Kernel).modifyCompCounter, []MethodAttr{
		Obj(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE),
		Enum(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY),
		Enum(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP),
		in(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE, 8),
	}},
	{abi.UVERBS_OBJECT_COMP_CNTR, abi.UVERBS_METHOD_COMP_CNTR_READ}: {"COMP_CNTR_READ", (*Kernel).readCompCounter, []MethodAttr{
		Obj(abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE),
		Enum(abi.UVERBS_ATTR_READ_COMP_CNTR_ENTRY),
		Out(abi.UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE, 8),
	}},
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_ATTACH_COMP_CNTR}: {"QP_ATTACH_COMP_CNTR", (*Kernel).attachCompCounter, []MethodAttr{
		Obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE),
		Obj(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE),
		in(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK, 4),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_ALLOC}: {"DMAH_ALLOC", (*Kernel).allocDMAH, []MethodAttr{
		Obj(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, 4).Optional(),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, 0).Optional(),
		in(abi.UVERBS_ATTR_ALLOC_DMAH_PH, 1).Optional(),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE}: {"DMAH_FREE", (*Kernel).freeDMAH, Destroys(abi.UVERBS_ATTR_FREE_DMA_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_MR}: {"REG_MR_FOR", (*Kernel).regMRFor, udata(
		Obj(abi.UVERBS_ATTR_REG_MR_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_PD_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE).Optional(),
		in(abi.UVERBS_ATTR_REG_MR_IOVA, 8),
		in(abi.UVERBS_ATTR_REG_MR_ADDR, 8).Optional(),
		in(abi.UVERBS_ATTR_REG_MR_LENGTH, 8),
		flags(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS),
		Out(abi.UVERBS_ATTR_REG_MR_RESP_LKEY, 4),
		Out(abi.UVERBS_ATTR_REG_MR_RESP_RKEY, 4),
	)},
}

// PortSpeed is the speed of a port, in units of 100 Mb/s, on devices that report one.
const PortSpeed = 750

// queryPortSpeed returns the speed of a port. The core has the call for all drivers, but only those of
// hardware support it.
func (k *Kernel) queryPortSpeed(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM)
	switch {
	case k.isSoftware():
		return syscall.EOPNOTSUPP
	case port != 1:
		return syscall.EINVAL
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, uint64(PortSpeed))
}

// Processors is the number of processors of a machine whose device has DMA handles.
const Processors = 8

// allocDMAH creates a DMA handle. It makes the checks of the core and those of drivers with DMA handles.
func (k *Kernel) allocDMAH(r *ioctl.Request) error {
	d := &DMAH{}
	d.HasCPU = ioctl.Argument(r, abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, &d.CPU)
	d.HasPH = ioctl.Argument(r, abi.UVERBS_ATTR_ALLOC_DMAH_PH, &d.PH)
	var element uint16
	element, d.HasMem = r.Element(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE)
	d.MemType = uint8(element)
	switch {
	case element > 1:
		return syscall.EOPNOTSUPP
	case d.CPU >= Processors, d.PH > 3, !d.HasPH, d.HasCPU != d.HasMem:
		return syscall.EINVAL
	}
	r.SetObject(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE, k.Add("DMAH", d, nothing))
	return nil
}

func (k *Kernel) freeDMAH(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_FREE_DMA_HANDLE)
	return k.Remove("DMAH", uint32(h))
}

// regMRFor registers memory with or without a DMA handle.
func (k *Kernel) regMRFor(r *ioctl.Request) error {
	pdHandle, _ := r.Value(abi.UVERBS_ATTR_REG_MR_PD_HANDLE)
	parent, err := k.Find("PD", uint32(pdHandle))
	if err != nil {
		return err
	}
	parents := []*object{parent}
	mr := &MR{PD: uint32(pdHandle)}
	if _, ok := r.Value(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE); ok {
		var o *object
		if o, mr.DMAH, err = FindIn[*DMAH](k, "DMAH", r, abi.UVERBS_ATTR_REG_MR_DMA_HANDLE); err != nil {
			return err
		}
		parents = append(parents, o)
	}
	addr, hasAddr := r.Value(abi.UVERBS_ATTR_REG_MR_ADDR)
	access, _ := r.Value(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS)
	mr.Start, _ = r.Value(abi.UVERBS_ATTR_REG_MR_IOVA)
	mr.Length, _ = r.Value(abi.UVERBS_ATTR_REG_MR_LENGTH)
	mr.Access = uint32(access)
	if !hasAddr || mr.Length == 0 || addr != mr.Start {
		return syscall.EINVAL
	}
	if err := k.User.Check(addr, mr.Length); err != nil {
		return err
	}
	if err := k.checkAccess(mr.Access); err != nil {
		return err
	}
	h, err := k.enlist(mr, r, nothing, parents...)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_MR_HANDLE, abi.UVERBS_ATTR_REG_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_MR_RESP_RKEY)
}

// DMAHs returns the DMA handles, lowest handle first.
func (k *Kernel) DMAHs() []*DMAH { return bodies[*DMAH](k) }
