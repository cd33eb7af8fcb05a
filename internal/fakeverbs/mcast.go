package fakeverbs

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// group is a multicast group that a QP is attached to.
type group struct {
	gid [16]byte
	lid uint16
}

func (k *Kernel) attachMcast(r *ioctl.Request) error {
	in := request[abi.IbUverbsAttachMcast](r)
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	g := group{in.Gid, in.Mlid}
	switch {
	case slices.Contains(qp.groups, g):
		return nil
	case !netip.AddrFrom16(in.Gid).Unmap().IsMulticast() || qp.Type != abi.IB_UVERBS_QPT_UD:
		return syscall.EINVAL
	}
	qp.groups = append(qp.groups, g)
	return nil
}

func (k *Kernel) detachMcast(r *ioctl.Request) error {
	in := request[abi.IbUverbsDetachMcast](r)
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	i := slices.Index(qp.groups, group{in.Gid, in.Mlid})
	if i < 0 {
		return syscall.EINVAL
	}
	qp.groups = slices.Delete(qp.groups, i, i+1)
	return nil
}
