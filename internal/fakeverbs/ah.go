package fakeverbs

import (
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// AH is the kernel's side of an address handle.
type AH struct {
	Attr abi.IbUverbsAhAttr
	PD   uint32 // handle of the PD
	Hops uint8  // the hop limit of the route, which the driver may use instead of that of Attr

	Num uint32 // for use by the model
}

func (k *Kernel) createAH(r *ioctl.Request) error {
	in := request[abi.IbUverbsCreateAh](r)
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	hops, err := k.resolveAH(&in.Attr)
	if err != nil {
		return err
	}
	ah := &AH{Attr: in.Attr, PD: in.PdHandle, Hops: hops}
	h := k.Add("AH", ah, func() { k.endAH(ah) }, parent)
	if err := k.Model.CreateAH(ah, r); err != nil {
		_ = k.Remove("AH", h)
		return err
	}
	return respond(r, abi.IbUverbsCreateAhResp{AhHandle: h})
}

// ahDestroyer is a model that has something to release when an address handle ends. DestroyAH is also called
// for one that CreateAH has refused.
type ahDestroyer interface{ DestroyAH(*AH) }

func (k *Kernel) endAH(ah *AH) {
	if m, ok := k.Model.(ahDestroyer); ok {
		m.DestroyAH(ah)
	}
}

// resolveAH makes the checks of the core's rdma_fill_sgid_attr and ib_resolve_eth_dmac, which address
// handles and the addresses of connected queue pairs of all drivers have to pass. It returns the hop limit
// of the route.
func (k *Kernel) resolveAH(a *abi.IbUverbsAhAttr) (hops uint8, err error) {
	roce := k.Device.IsRoCE()
	switch {
	case a.PortNum != 1, roce && a.IsGlobal == 0:
		return 0, syscall.EINVAL
	case a.IsGlobal == 0:
		return 0, nil
	}
	own, err := k.GID(uint32(a.Grh.SgidIndex))
	if err != nil || !roce {
		return a.Grh.HopLimit, err
	}
	from, to := netip.AddrFrom16(gidOf(own)), netip.AddrFrom16(a.Grh.Dgid)
	switch {
	case to.Unmap().IsMulticast():
		return a.Grh.HopLimit, nil
	case from.Is4In6() != to.Is4In6():
		return 0, syscall.EINVAL
	case to.IsUnspecified():
		return 0, syscall.ENETUNREACH
	}
	const standard = 64 // Linux's default, for IPv4 and IPv6
	return standard, nil
}

func (k *Kernel) destroyAH(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_AH_HANDLE)
	return k.Remove("AH", uint32(h))
}

// AddressHandles returns the address handles, lowest handle first.
func (k *Kernel) AddressHandles() []*AH { return bodies[*AH](k) }
