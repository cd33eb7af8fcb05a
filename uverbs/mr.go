package uverbs

import (
	"errors"
	"math"
	"os"
	"runtime"
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
