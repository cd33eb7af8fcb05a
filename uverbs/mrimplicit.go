package uverbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// RegImplicitMR registers the whole address space of the process, also what is mapped later. No
// page is pinned: the device faults them in as it comes to them. Work requests and peers name
// memory by its address, so [MR.SGE] takes addresses for offsets. [MR.Bytes] is nil, and the caller keeps
// memory in place for as long as work requests name it: a mapping, or a slice that
// a runtime.Pinner holds. Devices write to it; what a provider itself puts into
// memory, such as mlx5's short messages, can't go there.
//
// Access gets AccessOnDemand in any case. A device without it ([verbs.ODPImplicit]), rxe among them,
// returns an error that matches ErrNotSupported.
//
// C: ibv_reg_mr of address NULL and length SIZE_MAX with IBV_ACCESS_ON_DEMAND
func (pd *PD) RegImplicitMR(access verbs.Access) (*MR, error) {
	mr := &MR{pd: pd, length: math.MaxInt}
	access |= verbs.AccessOnDemand
	err := mr.made(access, mr.create, func(err error) (string, error) {
		if hint, err := pd.dev.lack(err, access); hint != "" {
			return hint, err
		}
		if a, failed := pd.dev.Attr(); failed == nil && errors.Is(err, syscall.EINVAL) && a.ODP.General&verbs.ODPImplicit == 0 {
			return "the device pages no whole address space (DeviceAttr.ODP)", fmt.Errorf("%w (%w)", verbs.ErrNotSupported, err)
		}
		return mrHint(err, access, 0), err
	})
	if err != nil {
		return nil, err
	}
	return mr, nil
}
