package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// PD is a protection domain: memory regions and queues of different domains
// can't touch each other.
//
// C: struct ibv_pd
type PD struct {
	node
	dev    *Device
	handle uint32
}

// AllocPD makes a protection domain.
//
// C: ibv_alloc_pd
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := pd.attach("PD", &d.node); err != nil {
		return nil, err
	}
	var resp abi.IbUverbsAllocPdResp
	r := writeCommand(d, abi.IB_USER_VERBS_CMD_ALLOC_PD, &abi.IbUverbsAllocPd{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(d.file); err != nil {
		pd.detach()
		return nil, pd.fail("create", err, createHint(err))
	}
	pd.handle = resp.PdHandle
	pd.setNumber(pd.handle)
	return pd, nil
}

// Device returns the device that the domain belongs to.
func (pd *PD) Device() *Device { return pd.dev }

// Close frees the domain.
//
// C: ibv_dealloc_pd
func (pd *PD) Close() error {
	return pd.close(func() error {
		r := pd.dev.request(abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_PD_HANDLE, pd.handle)
		return r.Do(pd.dev.file)
	}, nothing)
}
