package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// AH is the kernel's side of an address handle.
type AH struct {
	Attr abi.IbUverbsAhAttr

	Num uint32 // for use by the model
}

// createAH requires a global address, as the core does for RoCE ports.
func (k *Kernel) createAH(r *ioctl.Request) error {
	in := request[abi.IbUverbsCreateAh](r)
	if in.Attr.PortNum != 1 {
		return syscall.EINVAL
	}
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	if in.Attr.IsGlobal == 0 {
		return syscall.EINVAL
	}
	if _, err := k.GID(uint32(in.Attr.Grh.SgidIndex)); err != nil {
		return err
	}
	ah := &AH{Attr: in.Attr}
	h := k.Add("AH", ah, nothing, parent)
	if err := k.Model.CreateAH(ah, r); err != nil {
		_ = k.Remove("AH", h)
		return err
	}
	return respond(r, abi.IbUverbsCreateAhResp{AhHandle: h})
}

func (k *Kernel) destroyAH(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_AH_HANDLE)
	return k.Remove("AH", uint32(h))
}

// AddressHandles returns the address handles, lowest handle first.
func (k *Kernel) AddressHandles() []*AH { return bodies[*AH](k) }
