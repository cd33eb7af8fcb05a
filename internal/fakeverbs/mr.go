package fakeverbs

import (
	"encoding/binary"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// PD is the kernel's side of a protection domain.
type PD struct{}

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
	return respond(r, abi.IbUverbsAllocPdResp{PdHandle: k.Add("PD", PD{}, nothing)})
}

func (k *Kernel) destroyPD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)
	return k.Remove("PD", uint32(h))
}

// MR is the kernel's side of a memory region.
type MR struct {
	PD            uint32 // handle of the PD
	Start, Length uint64 // Start is the address of the first byte in work requests
	Access        uint32
	Key, RKey     uint32 // the keys for local and remote access, which most devices have in common
	DM            *DM    // device memory of the region, or nil
	Offset        uint64 // offset in DM
	DMAH          *DMAH  // DMA handle that it was registered with, or nil

	memory Memory
	at     uint64 // address of the first byte in memory
	iova   uint64 // Start as the program asked for it
	ended  bool   // a work request has invalidated it
}

// regMR registers memory. Its checks have the order of ib_uverbs_reg_mr, ib_umem_get and ib_umem_odp_get.
func (k *Kernel) regMR(r *ioctl.Request) error {
	if err := k.insist("REG_MR", r); err != nil {
		return err
	}
	in := request[abi.IbUverbsRegMr](r)
	if (in.Start^in.HcaVa)&uint64(PageSize-1) != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(in.AccessFlags); err != nil {
		return err
	}
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	mr := &MR{PD: in.PdHandle, Start: in.HcaVa, Length: in.Length, Access: in.AccessFlags}
	release, err := k.hold(mr, in.Start)
	if err != nil {
		return err
	}
	h, err := k.enlist(mr, r, release, parent)
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsRegMrResp{MrHandle: h, Lkey: mr.Key, Rkey: mr.RKey})
}

// modifying is the access for which the kernel pins memory that can be written.
//
// C: ib_access_writable
const modifying = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC | abi.IB_UVERBS_ACCESS_MW_BIND

// hold gives a region the process's memory from an address on. The memory is pinned, unless the region is on demand.
func (k *Kernel) hold(mr *MR, start uint64) (release func(), err error) {
	mr.at, mr.iova = start, mr.Start
	if k.Device.driver.IgnoresIOVA {
		mr.Start = start
	}
	if mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0 {
		mr.memory = k.User
		return nothing, k.checkOnDemand(mr)
	}
	mr.memory, release, err = k.PinUser(start, mr.Length, mr.Access&modifying != 0)
	return release, err
}

// PinUser pins memory of the process for the device, as [Memory] does, and counts its pages. The lock is held.
func (k *Kernel) PinUser(start, size uint64, write bool) (pinned Memory, release func(), err error) {
	length, err := pages(start, size)
	if err != nil {
		return nil, nil, err
	}
	if err := k.pin(length); err != nil {
		return nil, nil, err
	}
	pinned, unpin, err := k.User.Pin(start, size, write)
	if err != nil {
		_ = k.pin(-length)
		return nil, nil, err
	}
	return pinned, func() { unpin(); _ = k.pin(-length) }, nil
}

// checkOnDemand checks a region that is paged on demand, whose memory need not exist. It may be the whole address
// space.
func (k *Kernel) checkOnDemand(mr *MR) error {
	switch end := mr.at + mr.Length; {
	case mr.at == 0 && mr.Length == math.MaxUint64:
		if mr.Start != 0 || k.limits().ODP.GeneralCaps&abi.IB_ODP_SUPPORT_IMPLICIT == 0 {
			return syscall.EINVAL
		}
	case mr.Length == 0:
		return syscall.EINVAL
	case end < mr.at, end > -uint64(PageSize):
		return syscall.EOVERFLOW
	}
	return nil
}

// pages returns the length of the pages that contain a piece of memory.
func pages(addr, length uint64) (int64, error) {
	page := uint64(PageSize)
	end := addr + length
	last := (end + page - 1) &^ (page - 1)
	n := last - addr&^(page-1)
	if length == 0 || end < addr || last < end || n/page > math.MaxUint32 {
		return 0, syscall.EINVAL
	}
	return int64(n), nil
}

// rkeyModel is a model whose regions have another key for remote access.
type rkeyModel interface{ RKey(lkey uint32) uint32 }

// enlist adds a region to the kernel's objects, with keys that the driver chooses. The end of the object
// calls undo.
func (k *Kernel) enlist(mr *MR, r *ioctl.Request, undo func(), parents ...*object) (handle uint32, err error) {
	h := k.Add("MR", mr, func() { delete(k.keys, mr.Key); delete(k.keys, mr.RKey); undo() }, parents...)
	if mr.Key, err = k.Model.RegMR(h, r); err != nil {
		_ = k.Remove("MR", h)
		return 0, err
	}
	mr.RKey = mr.Key
	if m, ok := k.Model.(rkeyModel); ok {
		mr.RKey = m.RKey(mr.Key)
	}
	k.keys[mr.Key], k.keys[mr.RKey] = mr, mr
	return h, nil
}

// answerMR answers with the handle of a new region, and with its keys.
func answerMR(r *ioctl.Request, mr *MR, h uint32, handle, lkey, rkey uint16) error {
	r.SetObject(handle, h)
	if err := Answer(r, lkey, mr.Key); err != nil {
		return err
	}
	return Answer(r, rkey, mr.RKey)
}

func (k *Kernel) pin(bytes int64) error {
	if k.Pin == nil {
		return nil
	}
	return k.Pin(bytes)
}

// MemoryLimit implements [ioctl.MemoryLimiter].
func (k *Kernel) MemoryLimit() (bytes int64, own bool) {
	if k.PinLimit == nil {
		return 0, false
	}
	return k.PinLimit(), true
}

// CheckMemlock returns the error of the kernel for pinning memory, up to a sum, under a limit of RLIMIT_MEMLOCK, both
// in bytes.
//
// C: can_do_mlock, ib_umem_get
func CheckMemlock(sum, limit int64) error {
	switch {
	case limit == 0:
		return syscall.EPERM
	case sum > limit:
		return syscall.ENOMEM
	}
	return nil
}

// OptionalAccess is the set of access flags that a device may ignore.
const OptionalAccess = 0x3ff00000

// accessModel is a model whose options change which access its driver does not support.
type accessModel interface{ RefusedAccess() uint32 }

func (k *Kernel) refusedAccess() uint32 {
	if m, ok := k.Model.(accessModel); ok {
		return m.RefusedAccess()
	}
	return k.Device.driver.RefusedAccess
}

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
	case access&onDemand != 0 && !k.onDemand(), access&k.refusedAccess() != 0:
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
	return respond(r, abi.IbUverbsReregMrResp{Lkey: mr.Key, Rkey: mr.RKey})
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
	case !mr.covers(addr, uint64(length)) || mr.memory.Check(mr.at+addr-mr.Start, uint64(length)) != nil:
		return syscall.EFAULT
	}
	return nil
}

func (k *Kernel) destroyMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)
	if _, mr, err := find[*MR](k, "MR", uint32(h)); err == nil && k.Device.driver.CountsWindows && k.hasWindow(mr) {
		return syscall.EINVAL
	}
	return k.Remove("MR", uint32(h))
}

// hasWindow reports whether a window is bound to a region.
func (k *Kernel) hasWindow(mr *MR) bool {
	for _, mw := range k.windows {
		if mw.Bound != nil && mw.mr == mr {
			return true
		}
	}
	return false
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
	memory := &lent{}
	memory.add(piece{start, region, false})
	mr := &MR{PD: uint32(pd), Start: iova, Length: length, Access: uint32(access), memory: memory, at: offset, iova: iova}
	h, err := k.enlist(mr, r, memory.forget, parent)
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
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, mr.RKey); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mr.Length); err != nil {
		return err
	}
	if _, ok := r.Bytes(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA); !ok {
		return nil
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, mr.iova)
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
	mr *MR    // region that it was bound to
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
	In(abi.UVERBS_ATTR_ALLOC_DM_LENGTH, 8),
	In(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4),
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
	parent, _, err := FindIn[PD](k, "PD", r, abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE)
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
	mr := &MR{PD: uint32(pd), Length: length, Access: uint32(access), DM: dm, Offset: offset, memory: &dm.memory, at: dm.Start + offset}
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
var newest = map[string]bool{"QUERY_PORT_SPEED": true, "DMAH_ALLOC": true, "DMAH_FREE": true, "REG_MR_FOR": true}

// newestMethods holds the methods of these calls.
var newestMethods = map[[2]uint16]*Method{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED}: {"QUERY_PORT_SPEED", (*Kernel).queryPortSpeed, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM),
		Out(abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, 8),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_ALLOC}: {"DMAH_ALLOC", (*Kernel).allocDMAH, []MethodAttr{
		Obj(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE),
		In(abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, 4).Optional(),
		In(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, 0).Optional(),
		In(abi.UVERBS_ATTR_ALLOC_DMAH_PH, 1).Optional(),
	}},
	{abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE}: {"DMAH_FREE", (*Kernel).freeDMAH, Destroys(abi.UVERBS_ATTR_FREE_DMA_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_MR}: {"REG_MR_FOR", (*Kernel).regMRFor, udata(
		Obj(abi.UVERBS_ATTR_REG_MR_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_PD_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_MR_DMA_HANDLE).Optional(),
		In(abi.UVERBS_ATTR_REG_MR_IOVA, 8),
		In(abi.UVERBS_ATTR_REG_MR_ADDR, 8).Optional(),
		In(abi.UVERBS_ATTR_REG_MR_LENGTH, 8),
		Flags(abi.UVERBS_ATTR_REG_MR_ACCESS_FLAGS),
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
	if !hasAddr || (addr^mr.Start)&uint64(PageSize-1) != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(mr.Access); err != nil {
		return err
	}
	release, err := k.hold(mr, addr)
	if err != nil {
		return err
	}
	h, err := k.enlist(mr, r, release, parents...)
	if err != nil {
		return err
	}
	return answerMR(r, mr, h, abi.UVERBS_ATTR_REG_MR_HANDLE, abi.UVERBS_ATTR_REG_MR_RESP_LKEY, abi.UVERBS_ATTR_REG_MR_RESP_RKEY)
}

// DMAHs returns the DMA handles, lowest handle first.
func (k *Kernel) DMAHs() []*DMAH { return bodies[*DMAH](k) }
