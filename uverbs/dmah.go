package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// DMAH is a DMA handle: it tells a device how to mark what it reads and writes on the bus, so
// that data gets into the cache of the processor that wants it (TLP processing hints of PCIe).
// Regions are registered with it ([PD.RegMRFor]).
//
// C: struct ibv_dmah
type DMAH struct {
	object
	dev    *Device
	handle uint32
}

// DMAHOptions are the hints of a [DMAH]. Nil leaves one out. mlx5 wants PH, and CPU and MemType
// both or neither.
//
// C: struct ibv_dmah_init_attr
type DMAHOptions struct {
	CPU     *uint32           // the processor, one of those that the caller may run on (else EPERM)
	MemType *verbs.TPHMemType // what kind of memory it is
	PH      *uint8            // who uses the data, 0 to 3: both, the device, the host, the host soon again
}

// AllocDMAH makes a DMA handle. It needs Linux 7.2, a driver that has them, of which mlx5 is
// one, and a device and a host bridge that can do it; otherwise the error matches [verbs.ErrNotSupported].
//
// C: ibv_alloc_dmah
func (d *Device) AllocDMAH(opts DMAHOptions) (*DMAH, error) {
	h := &DMAH{dev: d}
	if err := h.attach("DMAH", &d.object); err != nil {
		return nil, err
	}
	if err := h.issueAlloc(opts); err != nil {
		h.detach()
		return nil, h.fail("allocate", err, d.methodHint(err, "DMAH", "DMAH_ALLOC"))
	}
	h.setNumber(h.handle)
	return h, nil
}

func (h *DMAH) issueAlloc(opts DMAHOptions) error {
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

// Close ends the handle. Regions that were registered with it must be closed before.
//
// C: ibv_dealloc_dmah
func (h *DMAH) Close() error {
	if h == nil {
		return closeNil("DMAH")
	}
	return h.close(h.issueFree, nothing)
}

func (h *DMAH) issueFree() error {
	r := h.dev.request(abi.UVERBS_OBJECT_DMAH, abi.UVERBS_METHOD_DMAH_FREE)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_FREE_DMA_HANDLE, h.handle)
	return r.Do(h.dev.file)
}
