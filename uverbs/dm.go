package uverbs

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// DM is memory on the device. Peers read and write it without crossing a bus. A program
// accesses it with [DM.ReadAt] and [DM.WriteAt]; peers and work requests need a region
// ([PD.RegDM]).
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_dm
type DM struct {
	object
	dev    *Device
	handle uint32
	length int
	data   driver.DM
	memory *memory
	lent   bool // imported: another process owns the kernel's object
}

var (
	_ io.ReaderAt = (*DM)(nil)
	_ io.WriterAt = (*DM)(nil)
)

// AllocDM allocates length bytes of device memory. Their address is a multiple of align, which
// must be a power of two, or 0 for the device's default. [verbs.DeviceAttr] has the size of the
// memory.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_alloc_dm
func (d *Device) AllocDM(length, align int) (*DM, error) {
	if d.provider == nil {
		return nil, d.noProvider("allocate", "DM")
	}
	if length <= 0 {
		return nil, &verbs.Error{Op: "allocate", Object: "DM", Device: d.info.Name, Err: syscall.EINVAL, Hint: "the length is not positive"}
	}
	if align < 0 || align&(align-1) != 0 {
		return nil, &verbs.Error{Op: "allocate", Object: "DM", Device: d.info.Name, Err: syscall.EINVAL, Hint: "align is not a power of two"}
	}
	dm := &DM{dev: d, length: length}
	if err := dm.attach("DM", &d.object); err != nil {
		return nil, err
	}
	if err := dm.create(uint32(bits.TrailingZeros(uint(max(align, 1))))); err != nil {
		dm.detach()
		return nil, dm.fail("allocate", err, d.dmHint(err, length))
	}
	dm.created(dm, dm.handle)
	return dm, nil
}

func (dm *DM) create(logAlign uint32) error {
	p, ok := dm.dev.provider.(driver.DMAllocator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := dm.dev.creation(nil)
	r := &driver.AllocDM{Call: c, Length: uint64(dm.length), LogAlign: logAlign}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return dm.issueAlloc(r, u, extra) }
	data, err := p.AllocDM(r)
	if err = c.made(err, func() error { return dm.issueFree(r.Handle) }); err != nil {
		return err
	}
	dm.handle, dm.data, dm.memory = r.Handle, data, c.memory
	return nil
}

func (dm *DM) issueAlloc(r *driver.AllocDM, u driver.UHW, extra []driver.Attr) error {
	q := dm.dev.request(abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_ALLOC)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_ALLOC_DM_HANDLE)
	q.U64(abi.UVERBS_ATTR_ALLOC_DM_LENGTH, r.Length)
	q.U32(abi.UVERBS_ATTR_ALLOC_DM_ALIGNMENT, r.LogAlign)
	if err := dm.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_ALLOC_DM_HANDLE)
	return nil
}

func (d *Device) dmHint(err error, length int) string {
	if a, failed := d.Attr(); failed == nil && uint64(length) > a.MaxDMSize && !errors.Is(err, verbs.ErrNotSupported) {
		return fmt.Sprintf("%d bytes is more than the device has (%d)", length, a.MaxDMSize)
	}
	return createHint(err)
}

// Len returns the length in bytes.
func (dm *DM) Len() int { return dm.length }

// ReadAt implements io.ReaderAt. If the access exceeds the memory, ReadAt copies the bytes before
// its end and returns io.EOF.
//
// C: ibv_memcpy_from_dm
func (dm *DM) ReadAt(b []byte, offset int64) (int, error) {
	return dm.copy("read", b, offset, func(b []byte) error { return dm.data.CopyFrom(b, uint64(offset)) })
}

// WriteAt implements io.WriterAt. If the access exceeds the memory, WriteAt copies the bytes
// before its end and returns io.EOF.
//
// C: ibv_memcpy_to_dm
func (dm *DM) WriteAt(b []byte, offset int64) (int, error) {
	return dm.copy("write", b, offset, func(b []byte) error { return dm.data.CopyTo(uint64(offset), b) })
}

func (dm *DM) copy(op string, b []byte, offset int64, do func([]byte) error) (n int, err error) {
	if offset < 0 {
		return 0, dm.fail(op, syscall.EINVAL, "the offset is negative")
	}
	inside := b[:min(int64(len(b)), int64(dm.length)-min(offset, int64(dm.length)))]
	err = dm.using(op, func() error {
		if len(inside) == 0 {
			return nil
		}
		if err := do(inside); err != nil {
			return dm.fail(op, err, "")
		}
		n = len(inside)
		return nil
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Handle returns the kernel's number of the memory, for [Device.ImportDM] in another process.
func (dm *DM) Handle() uint32 { return dm.handle }

// Close frees the memory. Imported memory stays allocated in the process that owns it. Regions
// of the memory must be closed first.
//
// C: ibv_free_dm, ibv_unimport_dm
func (dm *DM) Close() error {
	if dm == nil {
		return closeNil("DM")
	}
	if dm.lent {
		return dm.close(noop, dm.memory.free)
	}
	return dm.close(func() error {
		return destroy(dm.data, func() error { return dm.issueFree(dm.handle) })
	}, dm.memory.free)
}

func (dm *DM) issueFree(handle uint32) error {
	r := dm.dev.request(abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_FREE)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_FREE_DM_HANDLE, handle)
	return r.Do(dm.dev.file)
}

// DMAH is a DMA handle. It has the hints that a device adds to its reads and writes on the bus,
// so that data gets into the right processor's cache (TLP processing hints of PCIe). Register
// regions with it by [PD.RegMRFor].
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_dmah
type DMAH struct {
	object
	dev    *Device
	handle uint32
}

// DMAHOptions has the hints of a [DMAH]. A nil field means no hint. mlx5 requires PH, and either
// both CPU and MemType or neither.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: struct ibv_dmah_init_attr
type DMAHOptions struct {
	CPU     *uint32           // a processor that the caller may run on (else EPERM)
	MemType *verbs.TPHMemType // the kind of memory
	PH      *uint8            // the user of the data, 0 to 3: both, the device, the host, the host again soon
}

// AllocDMAH creates a DMA handle. It needs Linux 7.2 and support by the driver (such as mlx5's),
// the device and the host bridge. Otherwise the error matches [verbs.ErrNotSupported].
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_alloc_dmah
func (d *Device) AllocDMAH(opts *DMAHOptions) (*DMAH, error) {
	if opts == nil {
		opts = &DMAHOptions{}
	}
	h := &DMAH{dev: d}
	if err := h.attach("DMAH", &d.object); err != nil {
		return nil, err
	}
	if err := h.issueAlloc(opts); err != nil {
		h.detach()
		return nil, h.fail("allocate", err, d.methodHint(err, "DMAH", "DMAH_ALLOC"))
	}
	h.created(h, h.handle)
	return h, nil
}

func (h *DMAH) issueAlloc(opts *DMAHOptions) error {
	r := h.dev.request(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_ALLOC)
	defer r.Free()
	r.NewObject(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE)
	if opts.CPU != nil {
		r.U32(abi.UVERBS_ATTR_ALLOC_DMAH_CPU_ID, *opts.CPU)
	}
	if opts.MemType != nil {
		r.Enum(abi.UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, uint8(*opts.MemType))
	}
	if opts.PH != nil {
		ioctl.In(r, abi.UVERBS_ATTR_ALLOC_DMAH_PH, opts.PH)
	}
	if err := r.Do(h.dev.file); err != nil {
		return err
	}
	h.handle = r.Created(abi.UVERBS_ATTR_ALLOC_DMAH_HANDLE)
	return nil
}

// Close frees the handle. Regions that were registered with it must be closed first.
//
// C: ibv_dealloc_dmah
func (h *DMAH) Close() error {
	if h == nil {
		return closeNil("DMAH")
	}
	return h.close(h.issueFree, noop)
}

func (h *DMAH) issueFree() error {
	r := h.dev.request(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_FREE_DMA_HANDLE, h.handle)
	return r.Do(h.dev.file)
}
