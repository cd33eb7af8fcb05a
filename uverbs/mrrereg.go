package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// ReregOptions say what of a region is to change.
type ReregOptions struct {
	PD     *PD           // the region's from then on; nil leaves it as it is
	Access *verbs.Access // nil leaves it as it is
}

// Rereg changes a region in place. Its keys may change with it. No work request
// may use the region meanwhile, and nobody read its keys or its PD. Drivers that
// can't, and kernels before 6.3 on rxe, return an error that matches
// ErrNotSupported; register the memory anew then. The memory itself stays what it
// is. An imported region is EPERM.
//
// C: ibv_rereg_mr with IBV_REREG_MR_CHANGE_PD and IBV_REREG_MR_CHANGE_ACCESS
func (mr *MR) Rereg(opts ReregOptions) error {
	return mr.alone("change", func() error {
		if mr.null {
			return mr.failNull("change")
		}
		if mr.lent {
			return mr.fail("change", syscall.EPERM, "it was imported: the process that made it may change it")
		}
		in := &abi.IbUverbsReregMr{MrHandle: mr.handle}
		if opts.Access != nil {
			in.Flags, in.AccessFlags = in.Flags|reregAccess, uint32(*opts.Access)
		}
		if opts.PD == nil {
			return mr.rereg(in)
		}
		in.Flags, in.PdHandle = in.Flags|reregPD, opts.PD.handle
		return mr.move(&mr.pd.object, &opts.PD.object, func() error {
			if err := mr.rereg(in); err != nil {
				return err
			}
			mr.pd = opts.PD
			return nil
		})
	})
}

// The bits of enum ib_mr_rereg_flags, which no uapi header has.
const (
	reregPD     = 1 << 1
	reregAccess = 1 << 2
)

func (mr *MR) rereg(in *abi.IbUverbsReregMr) error {
	var resp abi.IbUverbsReregMrResp
	r := writeCommand(mr.pd.dev, abi.IB_USER_VERBS_CMD_REREG_MR, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(mr.pd.dev.file); err != nil {
		hint := reregHint(err, in)
		if hint == "" {
			hint, err = mr.pd.dev.lack(err, verbs.Access(in.AccessFlags))
		}
		return mr.fail("change", err, hint)
	}
	mr.delist()
	mr.lkey, mr.rkey = resp.Lkey, resp.Rkey
	if in.Flags&reregAccess != 0 {
		mr.access = verbs.Access(in.AccessFlags) | mr.access&(verbs.AccessOnDemand|verbs.AccessZeroBased) // which are the memory's
	}
	mr.enlist()
	return nil
}

func reregHint(err error, in *abi.IbUverbsReregMr) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case in.Flags == 0:
		return "neither PD nor Access is to change"
	}
	return accessHint(verbs.Access(in.AccessFlags))
}
