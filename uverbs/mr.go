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

// MR is a memory region: memory that the device may use, pinned in place.
//
// C: struct ibv_mr
type MR struct {
	object
	pd         *PD
	handle     uint32
	lkey, rkey uint32
	data       []byte // nil where it is a device's
	length     int
	iova       uint64          // the address of the first byte to work requests
	gone       atomic.Bool     // closed: data is not the region's any more
	own        *mmap.Region    // memory that came with the region
	pin        *runtime.Pinner // holds a caller's slice in place
	access     verbs.Access
	memory     *memory
	lent       bool // imported: the kernel's object is another's
	null       bool // of no memory: there is no object of the kernel's
}

// MROptions refine [PD.AllocMR]. Nil and the zero value ask for ordinary pages.
type MROptions struct {
	Huge bool // 2 MiB pages, from the pool that vm.nr_hugepages sets aside
}

// AllocMR registers size bytes of fresh, zeroed memory outside the Go heap,
// rounded up to whole pages. The memory is unmapped when the region is closed, and
// [MR.Bytes] is nil from then on.
func (pd *PD) AllocMR(size int, access verbs.Access, opts *MROptions) (*MR, error) {
	if opts == nil {
		opts = &MROptions{}
	}
	region, err := mmap.Anonymous(size, &mmap.AnonymousOptions{Huge: opts.Huge})
	if err != nil {
		return nil, &Error{Op: "allocate memory for", Object: "MR", Device: pd.dev.info.Name, Err: err}
	}
	mr := &MR{pd: pd, data: region.Bytes()[:size:size], length: size, iova: region.Addr(), own: region}
	if err := mr.register(access); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return mr, nil
}

// RegMR registers the caller's memory: a mapping of its own, or a Go slice,
// which stays pinned until the region is closed. The memory must not be empty.
// A caller's mapping must outlive the region.
//
// With AccessOnDemand the pages are not pinned: they count against no limit, may
// be swapped out, and cost a page fault each when the device first touches them
// ([PD.AdviseMR] spares it that). Memory that the caller unmaps under such a region
// is a protection error, where a pinned one goes on with the old pages. A Go slice
// is kept alive and in place as it is without; but it shares its pages with other
// objects, and whatever the runtime and the kernel do to those pages makes the
// device fault again. AllocMR's pages are the region's own. With rxe of Linux 7.2
// each packet of such memory must begin and end in one page, at its start: it takes
// every other offset for 0.
//
// C: ibv_reg_mr
func (pd *PD) RegMR(b []byte, access verbs.Access) (*MR, error) {
	return pd.RegMRAt(b, address(b), access)
}

// RegMRAt is RegMR for memory that work requests and peers name by addresses from iova on, a
// value of the caller's choice that lies at the same place of its page as b. siw has only the
// memory's own addresses.
//
// C: ibv_reg_mr_iova
func (pd *PD) RegMRAt(b []byte, iova uint64, access verbs.Access) (*MR, error) {
	if len(b) == 0 {
		return nil, &Error{Op: "create", Object: "MR", Device: pd.dev.info.Name, Err: syscall.EINVAL, Hint: "the memory is empty"}
	}
	mr := &MR{pd: pd, data: b, length: len(b), iova: iova, pin: pd.dev.file.pin(b)}
	if err := mr.register(access); err != nil {
		pd.dev.file.unpin(mr.pin)
		return nil, err
	}
	return mr, nil
}

func (mr *MR) register(access verbs.Access) error {
	pd := mr.pd
	return mr.made(access, mr.create, func(err error) (string, error) {
		if hint := mrHint(err, access, len(mr.data)); hint != "" {
			return hint, err
		}
		if page := uint64(os.Getpagesize() - 1); errors.Is(err, syscall.EINVAL) && (mr.iova^address(mr.data))&page != 0 {
			return "the memory and iova lie at different places of their pages", err
		}
		return pd.dev.lack(err, access)
	})
}

// made has create make the region, a user of its PD and of more.
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
	mr.setNumber(mr.handle)
	return nil
}

func (mr *MR) create(access verbs.Access) error {
	return mr.lending(func() error { return mr.ask(access) })
}

// lending lends the memory, if it is the process's, before the kernel hears of its address.
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

// Addr is the region's address, as work requests and peers name it.
func (mr *MR) Addr() uint64 { return mr.iova }

// PD returns the protection domain of the region.
func (mr *MR) PD() *PD { return mr.pd }

// Handle is the kernel's number of the region, for [PD.ImportMR] by another process.
func (mr *MR) Handle() uint32 { return mr.handle }

// Bytes returns the registered memory, or nil once the region is closed, or if the memory
// is a device's or the region was imported. A slice that the caller keeps, of [PD.AllocMR]'s
// memory, must not be used after Close: the memory is unmapped, so touching it kills the process, or touches
// whatever was mapped there since. Make sure that no other goroutine is using one when you
// call Close.
func (mr *MR) Bytes() []byte {
	if mr.gone.Load() {
		return nil
	}
	return mr.data
}

// Len is the size of the region in bytes. It outlives Close, as do Addr and the keys.
func (mr *MR) Len() int { return mr.length }

// LKey is the key for local use, in a [verbs.SGE]. No region, a nil MR, has key 0.
func (mr *MR) LKey() uint32 {
	if mr == nil {
		return 0
	}
	return mr.lkey
}

// RKey is the key to give to a peer that may read or write the region.
func (mr *MR) RKey() uint32 { return mr.rkey }

// SGE names n bytes of the region from off on, for a work request. The device checks
// the end of the region when it carries the request out.
//
// An SGE can name at most 4 GiB less two bytes; a larger n, a negative n and a negative
// off give an SGE whose Length is [verbs.BadLength]. PostSend, PostRecv and AdviseMR refuse
// that with an error. A device may take less than an SGE can name: no message is longer
// tha [verbs.PortAttr.MaxMsgSize].
func (mr *MR) SGE(off, n int) verbs.SGE {
	length := uint32(verbs.BadLength)
	if off >= 0 && n >= 0 && uint64(n) < verbs.BadLength {
		length = uint32(n)
	}
	return verbs.SGE{Addr: mr.Addr() + uint64(off), Length: length, LKey: mr.lkey}
}

// Close ends the registration and frees memory that came with the region, of which
// no slice may be used any more; see [MR.Bytes]. Memory that was the caller's stays.
// Work requests that still use the region complete with an error. When Close fails
// because the kernel refuses it, the region lives on. Of a region that was imported only the
// knowledge of it ends: the registration is left to the process that made it.
//
// C: ibv_dereg_mr
func (mr *MR) Close() error {
	if mr == nil {
		return closeNil("MR")
	}
	err := mr.close(mr.destroy, mr.release)
	var e *Error
	if errors.Is(err, syscall.EINVAL) && errors.As(err, &e) {
		e.Hint = "a memory window is bound to it: end that or close it first"
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

// MRAttr is what the kernel has of a region.
type MRAttr struct {
	LKey, RKey uint32
	Length     uint64 // bytes
	IOVA       uint64 // the address by which work requests name the first byte
}

// Query asks the kernel what it has of the region.
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

// ReregOptions say what of a region is to change.
type ReregOptions struct {
	PD     *PD           // the region's from then on; nil leaves it as it is
	Access *verbs.Access // nil leaves it as it is
}

// Rereg changes a region in place. Its keys may change with it. No work request
// may use the region meanwhile, and nobody read its keys or its PD. Drivers that
// can't, and kernels before 6.3 on rxe, return an error that matches
// ErrNotSupported; register the memory anew then. The memory itself stays what it
// is. An imported region is EPERM.
//
// C: ibv_rereg_mr with IBV_REREG_MR_CHANGE_PD and IBV_REREG_MR_CHANGE_ACCESS
func (mr *MR) Rereg(opts ReregOptions) error {
	return mr.alone("change", func() error {
		if mr.null {
			return mr.failNull("change")
		}
		if mr.lent {
			return mr.fail("change", syscall.EPERM, "it was imported: the process that made it may change it")
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

// The bits of enum ib_mr_rereg_flags, which no uapi header has.
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
		mr.access = verbs.Access(in.AccessFlags) | mr.access&(verbs.AccessOnDemand|verbs.AccessZeroBased) // which are the memory's
	}
	mr.enlist()
	return nil
}

func reregHint(err error, in *abi.IbUverbsReregMr) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case in.Flags == 0:
		return "neither PD nor Access is to change"
	}
	return accessHint(verbs.Access(in.AccessFlags))
}

// AdviseMR tells the device of a use to come of regions with AccessOnDemand, by
// local key, so that it need not wait for page faults then. With flush it returns
// when that is done, or with the reason why not; without, it is a hint that may
// come to nothing. Devices without on-demand paging return an error that matches
// ErrNotSupported.
//
// C: ibv_advise_mr, with IBV_ADVISE_MR_FLAG_FLUSH for flush
func (pd *PD) AdviseMR(advice verbs.MRAdvice, flush bool, sgl []verbs.SGE) error {
	const op = "advise on memory of"
	if len(sgl) == 0 || len(sgl) > maxAdvised {
		return pd.fail(op, syscall.EINVAL, fmt.Sprintf("the list has 1 to %d entries", maxAdvised))
	}
	for i, s := range sgl {
		if s.Length == verbs.BadLength {
			return pd.fail(op, syscall.EINVAL, fmt.Sprintf("entry %d has BadLength: MR.SGE could not name what it was asked for", i))
		}
		// The kernel's rxe does not look (Linux 7.2): it takes any region for one with
		// on-demand paging, and then random memory for pointers.
		if !pd.dev.regions.isOnDemand(s.LKey) {
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

// maxAdvised is what fits behind the 16-bit length of a request's attribute.
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
	r := pd.dev.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd.handle)
	r.Const(abi.UVERBS_ATTR_ADVISE_MR_ADVICE, uint64(advice))
	r.Flags(abi.UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
	ioctl.InSlice(r, abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, list)
	return r.Do(pd.dev.file)
}

func adviseHint(err error) string {
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
		return "an LKey is of another PD's region, or of one without AccessLocalWrite"
	case errors.Is(err, syscall.EPERM):
		return "the region is not writable"
	case errors.Is(err, syscall.EFAULT):
		return "memory of the list is outside its region, or not mapped"
	case ioctl.Unsupported(err):
		return "the device has no on-demand paging, or no such advice (DeviceAttr.ODP)"
	}
	return ""
}

// prefetchStep is how much Prefetch asks for at once, in bytes.
const prefetchStep = 64 << 20

// Prefetch has a region with AccessOnDemand be there before work requests name it: n bytes from
// off on, to be written with MRPrefetchWrite, or to be read. It asks for 64 MiB at a time, and
// tells progress, unless it is nil, of all that is there after each; then it looks at ctx. What
// was there may be gone again when memory is short.
//
// C: ibv_advise_mr with IBV_ADVISE_MR_FLAG_FLUSH
func (mr *MR) Prefetch(ctx context.Context, advice verbs.MRAdvice, off, n int, progress func(done int)) error {
	if off < 0 || n < 0 {
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
		if done += step; progress != nil {
			progress(done)
		}
	}
	return nil
}

// regions are the open memory regions of a device, by local key.
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

// remove returns when nobody writes to the region any more.
func (r *regions) remove(mr *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, mr.lkey)
}

// isOnDemand tells of a key that it is of a region whose pages are not pinned.
func (r *regions) isOnDemand(lkey uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	return mr != nil && mr.access&verbs.AccessOnDemand != 0
}

// read takes bytes from the region of a key, as its device would.
func (r *regions) read(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), 0, func(data []byte) { copy(b, data) })
}

// write puts bytes into the region of a key, as its device would.
func (r *regions) write(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), verbs.AccessLocalWrite, func(data []byte) { copy(data, b) })
}

// at has n bytes of the region of a key used, if its rights and bounds allow that.
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
