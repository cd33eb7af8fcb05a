package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// firstMW is the index of the first window in its key.
const firstMW = 1 << 19

// MW is a memory window as the kernel made it.
type MW struct {
	Type uint8
	RKey uint32
	// Bound is what it opens; nil while it opens nothing.
	Bound *Binding

	pd uint32 // handle
	qp *QP    // through which it was bound
}

// to tells whether the window opens something to the peer of a queue pair. One of type 1
// belongs to a PD.
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
