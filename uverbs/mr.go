package uverbs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// MR is a memory region, memory that the device may access. It is pinned in place.
//
// C: struct ibv_mr
type MR struct {
	object
	pd         *PD
	handle     uint32
	lkey, rkey uint32
	data       []byte // nil for memory that is not mapped here
	length     int
	iova       uint64          // the address of the first byte in work requests
	gone       atomic.Bool     // closed: data must not be used any more
	own        *mmap.Region    // memory that AllocMR mapped
	pin        *runtime.Pinner // keeps a caller's slice in place
	access     verbs.Access
	memory     *memory
	lent       bool // imported: another process owns the kernel's object
	null       bool // from AllocNullMR: the kernel has no object for it
}

// MROptions are the options of [PD.AllocMR]. A nil pointer and the zero value mean ordinary
// pages.
type MROptions struct {
	Huge bool // 2 MiB pages from the pool of vm.nr_hugepages
	// Align is the alignment of the region's address in bytes: a power of two of at most 2 MiB. 0
	// means the page size. If the region is divided into buffers of this size, no buffer crosses
	// a boundary of this size. With 2 MiB, the kernel can use transparent huge pages.
	Align int
}

// AllocMR allocates size bytes of zeroed memory outside the Go heap, rounded up to whole pages,
// and registers them. Closing the region unmaps the memory; [MR.Bytes] returns nil from then on.
func (pd *PD) AllocMR(size int, access verbs.Access, opts *MROptions) (*MR, error) {
	if opts == nil {
		opts = &MROptions{}
	}
	region, err := mmap.Anonymous(size, &mmap.AnonymousOptions{Huge: opts.Huge, Align: opts.Align})
	if err != nil {
		return nil, &verbs.Error{Op: "allocate memory for", Object: "MR", Device: pd.device().info.Name, Err: err}
	}
	mr := &MR{pd: pd, data: region.Bytes()[:size:size], length: size, iova: region.Addr(), own: region}
	if err := mr.register(access); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return mr, nil
}

// RegMR registers memory of the caller: a mapping, or a Go slice, which stays pinned until the
// region is closed. The memory must not be empty. A mapping must outlive the region.
//
// With AccessOnDemand, the pages are not pinned. They count against no limit, may be swapped
// out, and cost a page fault each when the device first touches them ([PD.AdviseMR] avoids
// that). If the caller unmaps the memory of such a region, accesses are protection errors; a
// pinned region keeps using the old pages. A Go slice is kept alive and in place in either case.
// But it shares its pages with other objects, and the device faults again when the runtime or the
// kernel changes these pages. The pages of AllocMR belong to the region alone. With rxe of Linux
// 7.2, each packet in such memory must begin at the start of a page and end in the same page,
// because rxe takes every other offset for 0.
//
// C: ibv_reg_mr
func (pd *PD) RegMR(b []byte, access verbs.Access) (*MR, error) {
	return pd.RegMRAt(b, address(b), access)
}

// RegMRAt is like RegMR, but work requests and peers address the memory from iova on. The caller
// chooses iova; its offset in its page must be that of b. siw supports only the memory's own
// address.
//
// C: ibv_reg_mr_iova
func (pd *PD) RegMRAt(b []byte, iova uint64, access verbs.Access) (*MR, error) {
	if len(b) == 0 {
		return nil, &verbs.Error{Op: "create", Object: "MR", Device: pd.device().info.Name, Err: syscall.EINVAL, Hint: "the memory is empty"}
	}
	mr := &MR{pd: pd, data: b, length: len(b), iova: iova, pin: pd.device().file.pin(b)}
	if err := mr.register(access); err != nil {
		pd.device().file.unpin(mr.pin)
		return nil, err
	}
	return mr, nil
}

func (mr *MR) register(access verbs.Access) error {
	pd := mr.pd
	return mr.made(access, mr.create, func(err error) (string, error) {
		if hint := pd.device().mrHint(err, access, len(mr.data)); hint != "" {
			return hint, err
		}
		if page := uint64(os.Getpagesize() - 1); errors.Is(err, syscall.EINVAL) && (mr.iova^address(mr.data))&page != 0 {
			return "the memory and iova have different offsets within a page", err
		}
		return pd.device().lack(err, access)
	})
}

// made calls create to create the region, and makes the region a user of its PD and of the
// objects in more.
func (mr *MR) made(access verbs.Access, create func(verbs.Access) error, remedy func(error) (hint string, err error), more ...*object) error {
	if err := mr.attach("MR", append([]*object{&mr.pd.object}, more...)...); err != nil {
		return err
	}
	if err := create(access); err != nil {
		mr.detach()
		hint, err := remedy(err)
		return mr.fail("create", err, hint)
	}
	mr.access = access
	mr.enlist()
	mr.created(mr, mr.handle)
	return nil
}

func (mr *MR) create(access verbs.Access) error {
	return mr.lending(func() error { return mr.ask(access) })
}

// lending calls ask. If the region is memory of this process, lending lends it first, so that a
// model of a device can find the memory behind the address.
func (mr *MR) lending(ask func() error) error {
	if mr.data == nil {
		return ask()
	}
	mr.pd.dev.file.Lend(address(mr.data), mr.data)
	err := ask()
	if err != nil {
		mr.pd.dev.file.Return(address(mr.data))
	}
	return err
}

func (mr *MR) ask(access verbs.Access) (err error) {
	c := mr.pd.dev.creation(func(u driver.UHW, extra []driver.Attr) error { return mr.issueCreate(access, u, extra) })
	mr.memory = c.memory
	if p, ok := mr.pd.dev.provider.(driver.MRRegistrar); ok {
		err = p.RegMR(&driver.RegMR{Call: c, Addr: address(mr.data), IOVA: mr.iova})
	} else {
		err = c.Do(mr.pd.dev.bare().mr())
	}
	return c.made(err, func() error { return mr.pd.dev.issueDeregMR(mr.handle) })
}

func (mr *MR) issueCreate(access verbs.Access, u driver.UHW, extra []driver.Attr) error {
	in := &abi.IbUverbsRegMr{
		Start: address(mr.data), Length: uint64(len(mr.data)), HcaVa: mr.iova,
		PdHandle: mr.pd.handle, AccessFlags: uint32(access),
	}
	if mr.data == nil {
		in.Length = math.MaxUint64
	}
	resp, err := mr.pd.dev.issueRegMR(in, u, extra)
	if err != nil {
		return err
	}
	mr.handle, mr.lkey, mr.rkey = resp.MrHandle, resp.Lkey, resp.Rkey
	return nil
}

func (d *Device) issueRegMR(in *abi.IbUverbsRegMr, u driver.UHW, extra []driver.Attr) (abi.IbUverbsRegMrResp, error) {
	var resp abi.IbUverbsRegMrResp
	r := writeCommand(d, abi.IB_USER_VERBS_CMD_REG_MR, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	err := d.doWith(r, u, extra)
	return resp, err
}

// Addr returns the region's address in work requests.
func (mr *MR) Addr() uint64 { return mr.iova }

// PD returns the protection domain of the region.
func (mr *MR) PD() *PD { return mr.pd }

// Handle returns the kernel's number of the region, for [PD.ImportMR] in another process.
func (mr *MR) Handle() uint32 { return mr.handle }

// Bytes returns the registered memory. It returns nil if the region is closed or imported, or if
// the memory is on a device. For a region from [PD.AllocMR], don't use the slice after Close,
// which unmaps the memory: an access would crash the process, or reach memory that was mapped
// there since. Make sure that no goroutine uses the slice when you call Close.
func (mr *MR) Bytes() []byte {
	if mr.gone.Load() {
		return nil
	}
	return mr.data
}

// Len returns the size of the region in bytes. Len, Addr and the keys can be read after Close.
func (mr *MR) Len() int { return mr.length }

// LKey returns the key for local use, in a [verbs.SGE]. The key of a nil MR is 0.
func (mr *MR) LKey() uint32 {
	if mr == nil {
		return 0
	}
	return mr.lkey
}

// RKey returns the key that a peer needs to read or write the region.
func (mr *MR) RKey() uint32 { return mr.rkey }

// SGE returns a scatter/gather entry for n bytes of the region at offset off. If they are not all
// within the region, or the region is closed, its Length is [verbs.BadLength], which PostSend,
// PostRecv and AdviseMR refuse.
//
// An SGE can have at most 4 GiB minus two bytes. For a larger n, its Length is BadLength, too. A
// device's limit may be smaller: no message is longer than MaxMsgSize of [verbs.PortAttr].
func (mr *MR) SGE(off, n int) verbs.SGE {
	length := uint32(verbs.BadLength)
	if off >= 0 && n >= 0 && n <= mr.length-off && uint64(n) < verbs.BadLength && !mr.gone.Load() {
		length = uint32(n)
	}
	return verbs.SGE{Addr: mr.Addr() + uint64(off), Length: length, LKey: mr.lkey}
}

// Close deregisters the region. It unmaps memory that AllocMR allocated (see [MR.Bytes]) and
// leaves the caller's memory alone. Work requests that still use the region complete with an
// error. If the kernel refuses to deregister it, Close fails and the region stays open. An
// imported region stays registered in the process that owns it.
//
// C: ibv_dereg_mr
func (mr *MR) Close() error {
	if mr == nil {
		return closeNil("MR")
	}
	err := mr.close(mr.destroy, mr.release)
	var e *verbs.Error
	if errors.Is(err, syscall.EINVAL) && errors.As(err, &e) {
		e.Hint = "a memory window is bound to it: invalidate or close the window first"
	}
	return err
}

func (mr *MR) destroy() error {
	if mr.lent || mr.null {
		return nil
	}
	mr.delist()
	err := mr.pd.dev.issueDeregMR(mr.handle)
	if err != nil {
		mr.enlist()
		return err
	}
	if mr.data != nil {
		mr.pd.dev.file.Return(address(mr.data))
	}
	return nil
}

func (d *Device) issueDeregMR(handle uint32) error {
	r := d.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_MR_HANDLE, handle)
	return r.Do(d.file)
}

func (mr *MR) release() error {
	mr.gone.Store(true)
	err := mr.memory.free()
	if mr.own != nil {
		return errors.Join(err, mr.own.Close())
	}
	if mr.pin != nil {
		mr.pd.dev.file.unpin(mr.pin)
	}
	return err
}

// MRAttr holds the attributes of a region that the kernel reports.
type MRAttr struct {
	LKey, RKey uint32
	Length     uint64 // bytes
	IOVA       uint64 // the address of the first byte in work requests
}

// Query asks the kernel for the region's attributes.
//
// C: part of ibv_import_mr
func (mr *MR) Query() (attr MRAttr, err error) {
	err = mr.using("query", func() error {
		if mr.null {
			return mr.failNull("query")
		}
		if attr, err = mr.pd.dev.issueQueryMR(mr.handle); err != nil {
			return mr.fail("query", err, "")
		}
		return nil
	})
	return attr, err
}

func (d *Device) issueQueryMR(handle uint32) (attr MRAttr, err error) {
	r := d.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_QUERY_MR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_QUERY_MR_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, &attr.LKey)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, &attr.RKey)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &attr.Length)
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, &attr.IOVA)
	err = r.Do(d.file)
	return attr, err
}

// ReregOptions has the changes that [MR.Rereg] makes. A nil field means no change.
type ReregOptions struct {
	PD     *PD
	Access *verbs.Access
}

// Rereg changes the PD or the access flags of a region. The keys may change, but not the memory.
// While Rereg runs, no work request may use the region, and no goroutine may call RKey, LKey or
// PD. If the driver can't do it, or the kernel's rxe is older than Linux 6.3, the error matches
// ErrNotSupported; close the region and register the memory again. For an imported region the
// error is EPERM.
//
// C: ibv_rereg_mr with IBV_REREG_MR_CHANGE_PD and IBV_REREG_MR_CHANGE_ACCESS
func (mr *MR) Rereg(opts *ReregOptions) error {
	if opts == nil {
		opts = &ReregOptions{}
	}
	return mr.alone("change", func() error {
		if mr.null {
			return mr.failNull("change")
		}
		if mr.lent {
			return mr.fail("change", syscall.EPERM, "it was imported: only the process that created it may change it")
		}
		in := &abi.IbUverbsReregMr{MrHandle: mr.handle}
		if opts.Access != nil {
			in.Flags, in.AccessFlags = in.Flags|reregAccess, uint32(*opts.Access)
		}
		if opts.PD == nil {
			return mr.rereg(in)
		}
		in.Flags, in.PdHandle = in.Flags|reregPD, opts.PD.handle
		return mr.move(&mr.pd.object, &opts.PD.object, func() error {
			if err := mr.rereg(in); err != nil {
				return err
			}
			mr.pd = opts.PD
			return nil
		})
	})
}

// The bits of enum ib_mr_rereg_flags. No uapi header has them.
const (
	reregPD     = 1 << 1
	reregAccess = 1 << 2
)

func (mr *MR) rereg(in *abi.IbUverbsReregMr) error {
	var resp abi.IbUverbsReregMrResp
	r := writeCommand(mr.pd.dev, abi.IB_USER_VERBS_CMD_REREG_MR, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(mr.pd.dev.file); err != nil {
		hint := reregHint(err, in)
		if hint == "" {
			hint, err = mr.pd.dev.lack(err, verbs.Access(in.AccessFlags))
		}
		return mr.fail("change", err, hint)
	}
	mr.delist()
	mr.lkey, mr.rkey = resp.Lkey, resp.Rkey
	if in.Flags&reregAccess != 0 {
		mr.access = verbs.Access(in.AccessFlags) | mr.access&(verbs.AccessOnDemand|verbs.AccessZeroBased) // these never change
	}
	mr.enlist()
	return nil
}

func reregHint(err error, in *abi.IbUverbsReregMr) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case in.Flags == 0:
		return "neither PD nor Access changes"
	}
	return accessHint(verbs.Access(in.AccessFlags))
}

// AdviseMR advises the device that regions with AccessOnDemand will be used soon, so that it can
// handle the page faults early. The entries of sgl name the regions by LKey. With flush, AdviseMR
// returns when that is done, or with an error. Without flush, it is only a hint, which the device
// may ignore. If the device has no on-demand paging, the error matches ErrNotSupported.
//
// C: ibv_advise_mr, with IBV_ADVISE_MR_FLAG_FLUSH for flush
func (pd *PD) AdviseMR(advice verbs.MRAdvice, flush bool, sgl []verbs.SGE) error {
	const op = "advise on memory of"
	if len(sgl) == 0 || len(sgl) > maxAdvised {
		return pd.fail(op, syscall.EINVAL, fmt.Sprintf("the list must have 1 to %d entries", maxAdvised))
	}
	for i, s := range sgl {
		if s.Length == verbs.BadLength {
			return pd.fail(op, syscall.EINVAL, fmt.Sprintf("entry %d has BadLength: MR.SGE got a range that is not within the region, or 4 GiB or more, or the region is closed", i))
		}
		// The kernel's rxe does not check this (Linux 7.2): it treats every region as one
		// with on-demand paging, and would follow random memory as pointers.
		if !pd.device().regions.isOnDemand(s.LKey) {
			return pd.fail(op, syscall.EINVAL, fmt.Sprintf("the region of LKey %#x has no AccessOnDemand", s.LKey))
		}
	}
	return pd.using(op, func() error {
		if err := pd.issueAdvise(advice, flush, sgl); err != nil {
			return pd.fail(op, err, adviseHint(err))
		}
		return nil
	})
}

// maxAdvised is the number of entries that fit into an attribute, whose length has 16 bits.
const maxAdvised = (1<<16 - 1) / 16

func (pd *PD) issueAdvise(advice verbs.MRAdvice, flush bool, sgl []verbs.SGE) error {
	list := make([]abi.IbUverbsSge, len(sgl))
	for i, s := range sgl {
		list[i] = abi.IbUverbsSge{Addr: s.Addr, Length: s.Length, Lkey: s.LKey}
	}
	var flags uint32
	if flush {
		flags = abi.IB_UVERBS_ADVISE_MR_FLAG_FLUSH
	}
	r := pd.device().request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd.handle)
	r.Const(abi.UVERBS_ATTR_ADVISE_MR_ADVICE, uint64(advice))
	r.Flags(abi.UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
	ioctl.InSlice(r, abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, list)
	return r.Do(pd.device().file)
}

func adviseHint(err error) string {
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
		return "an LKey belongs to a region of another PD, or to one without AccessLocalWrite"
	case errors.Is(err, syscall.EPERM):
		return "the region is not writable"
	case errors.Is(err, syscall.EFAULT):
		return "memory of the list is outside its region, or not mapped"
	case ioctl.Unsupported(err):
		return "the device does not support on-demand paging, or this advice (DeviceAttr.ODP)"
	}
	return ""
}

// prefetchStep is the number of bytes that Prefetch requests at once.
const prefetchStep = 64 << 20

// Prefetch loads n bytes at offset off of a region with AccessOnDemand into memory, before work
// requests use them. advice says whether they will be read or written. Prefetch proceeds in steps
// of 64 MiB, and checks ctx before each. The kernel may evict the pages again when memory is short.
//
// C: ibv_advise_mr with IBV_ADVISE_MR_FLAG_FLUSH
func (mr *MR) Prefetch(ctx context.Context, advice verbs.MRAdvice, off, n int) error {
	if off < 0 || n < 0 || mr.isZero() {
		return mr.fail("prefetch", syscall.EINVAL, "the offset or the length is negative")
	}
	for done := 0; done < n; {
		if err := ctx.Err(); err != nil {
			return mr.fail("prefetch", err, "")
		}
		step := min(n-done, prefetchStep)
		if err := mr.pd.AdviseMR(advice, true, []verbs.SGE{mr.SGE(off+done, step)}); err != nil {
			return err
		}
		done += step
	}
	return nil
}

// regions has the open memory regions of a device by local key.
type regions struct {
	mu   sync.RWMutex
	open map[uint32]*MR
}

func (r *regions) add(mr *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[uint32]*MR)
	}
	r.open[mr.lkey] = mr
}

// remove removes the region and waits until no goroutine accesses it any more.
func (r *regions) remove(mr *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, mr.lkey)
}

// isOnDemand reports whether the key belongs to a region whose pages are not pinned.
func (r *regions) isOnDemand(lkey uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	return mr != nil && mr.access&verbs.AccessOnDemand != 0
}

// read copies bytes from the region with the key, as its device would.
func (r *regions) read(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), 0, func(data []byte) { copy(b, data) })
}

// write copies bytes into the region with the key, as its device would.
func (r *regions) write(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), verbs.AccessLocalWrite, func(data []byte) { copy(data, b) })
}

// at calls use with n bytes of the region with the key, if its rights and bounds allow that.
func (r *regions) at(lkey uint32, addr uint64, n int, rights verbs.Access, use func(data []byte)) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	if mr == nil || mr.access&rights != rights {
		return false
	}
	off := addr
	if mr.access&verbs.AccessZeroBased == 0 {
		off -= mr.iova
	}
	if size := uint64(len(mr.data)); off > size || uint64(n) > size-off {
		return false
	}
	use(mr.data[off:][:n])
	return true
}

func (mr *MR) enlist() { mr.pd.dev.regions.add(mr) }
func (mr *MR) delist() { mr.pd.dev.regions.remove(mr) }
