package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// PD is a protection domain. Queues can access only memory regions of their own domain.
//
// C: struct ibv_pd
type PD struct {
	object
	dev    *Device
	handle uint32
	data   any // the provider's, which may be a driver.Destroyer
	memory *memory
	lent   bool // imported: another process owns the kernel's object
}

// AllocPD creates a protection domain.
//
// C: ibv_alloc_pd
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := pd.attach("PD", &d.object); err != nil {
		return nil, err
	}
	if err := pd.create(); err != nil {
		pd.detach()
		return nil, pd.fail("create", err, createHint(err))
	}
	pd.created(pd, pd.handle)
	return pd, nil
}

func (pd *PD) create() (err error) {
	d := pd.device()
	c := d.creation(nil)
	r := &driver.AllocPD{Call: c}
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		pd.handle, err = d.issueAllocPD(u, extra)
		r.Handle = pd.handle
		return err
	}
	pd.memory = c.memory
	if p, ok := d.provider.(driver.PDAllocator); ok {
		pd.data, err = p.AllocPD(r)
	} else {
		err = c.Do(d.bare().pd())
	}
	return c.made(err, func() error { return d.issueDeallocPD(pd.handle) })
}

func (d *Device) issueAllocPD(u driver.UHW, extra []driver.Attr) (handle uint32, err error) {
	var resp abi.IbUverbsAllocPdResp
	r := writeCommand(d, abi.IB_USER_VERBS_CMD_ALLOC_PD, &abi.IbUverbsAllocPd{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	err = d.doWith(r, u, extra)
	return resp.PdHandle, err
}

func (d *Device) issueDeallocPD(handle uint32) error {
	r := d.request(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_PD_HANDLE, handle)
	return r.Do(d.file)
}

// Device returns the device that the domain belongs to.
func (pd *PD) Device() *Device { return pd.dev }

// device returns the device that objects of the domain are created on.
func (pd *PD) device() *Device {
	if pd.dev == nil {
		return noDevice
	}
	return pd.dev
}

// Handle returns the kernel's number of the domain, for [Device.ImportPD] in another process.
func (pd *PD) Handle() uint32 { return pd.handle }

// Close frees the domain. An imported domain stays open in the process that created it.
//
// C: ibv_dealloc_pd
func (pd *PD) Close() error {
	if pd == nil {
		return closeNil("PD")
	}
	if pd.lent {
		return pd.close(noop, pd.memory.free)
	}
	return pd.close(func() error {
		return destroy(pd.data, func() error { return pd.device().issueDeallocPD(pd.handle) })
	}, pd.memory.free)
}
