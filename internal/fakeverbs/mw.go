package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// MW is a memory window as the kernel made it.
type MW struct {
	Type uint8
	RKey uint32
}

func (k *Kernel) allocMW(r *ioctl.Request) error {
	in := request[abi.IbUverbsAllocMw](r)
	parent, err := k.find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	if in.MwType != 1 && in.MwType != 2 {
		return syscall.EINVAL
	}
	mw := &MW{Type: in.MwType}
	h := k.add("MW", mw, nothing, parent)
	mw.RKey = (firstRXEMW+h)<<8 | 0x5a
	return respond(r, abi.IbUverbsAllocMwResp{MwHandle: h, Rkey: mw.RKey})
}

func (k *Kernel) destroyMW(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MW_HANDLE)
	return k.remove("MW", uint32(h))
}

// MWs returns the memory windows, lowest handle first.
func (k *Kernel) MWs() []*MW { return bodies[*MW](k) }
