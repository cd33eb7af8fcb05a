package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// AdviseMR tells the device of a use to come of regions with AccessOnDemand, by
// local key, so that it need not wait for page faults then. With flush it returns
// when that is done, or with the reason why not; without, it is a hint that may
// come to nothing. Devices without on-demand paging return an error that matches
// ErrNotSupported.
//
// C: ibv_advise_mr, with IBV_ADVISE_MR_FLAG_FLUSH for flush
func (pd *PD) AdviseMR(advice verbs.MRAdvice, flush bool, sgl []verbs.SGE) error {
	const op = "advise on memory of"
	if len(sgl) == 0 || len(sgl) > maxAdvised {
		return pd.fail(op, syscall.EINVAL, fmt.Sprintf("the list has 1 to %d entries", maxAdvised))
	}
	for i, s := range sgl {
		if s.Length == verbs.BadLength {
			return pd.fail(op, syscall.EINVAL, fmt.Sprintf("entry %d has BadLength: MR.SGE could not name what it was asked for", i))
		}
		// The kernel's rxe does not look (Linux 7.2): it takes any region for one with
		// on-demand paging, and then random memory for pointers.
		if !pd.dev.regions.isOnDemand(s.LKey) {
			return pd.fail(op, syscall.EINVAL, fmt.Sprintf("the region of LKey %#x has no AccessOnDemand", s.LKey))
		}
	}
	return pd.using(op, func() error {
		if err := pd.issueAdvise(advice, flush, sgl); err != nil {
			return pd.fail(op, err, adviseHint(err))
		}
		return nil
	})
}

// maxAdvised is what fits behind the 16-bit length of a request's attribute.
const maxAdvised = (1<<16 - 1) / 16

func (pd *PD) issueAdvise(advice verbs.MRAdvice, flush bool, sgl []verbs.SGE) error {
	list := make([]abi.IbUverbsSge, len(sgl))
	for i, s := range sgl {
		list[i] = abi.IbUverbsSge{Addr: s.Addr, Length: s.Length, Lkey: s.LKey}
	}
	var flags uint32
	if flush {
		flags = abi.IB_UVERBS_ADVISE_MR_FLAG_FLUSH
	}
	r := pd.dev.request(abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd.handle)
	r.Const(abi.UVERBS_ATTR_ADVISE_MR_ADVICE, uint64(advice))
	r.Flags(abi.UVERBS_ATTR_ADVISE_MR_FLAGS, flags)
	ioctl.InSlice(r, abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, list)
	return r.Do(pd.dev.file)
}

func adviseHint(err error) string {
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
		return "an LKey is of another PD's region, or of one without AccessLocalWrite"
	case errors.Is(err, syscall.EPERM):
		return "the region is not writable"
	case errors.Is(err, syscall.EFAULT):
		return "memory of the list is outside its region, or not mapped"
	case ioctl.Unsupported(err):
		return "the device has no on-demand paging, or no such advice (DeviceAttr.ODP)"
	}
	return ""
}
