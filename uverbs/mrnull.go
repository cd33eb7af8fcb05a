package uverbs

import (
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// AllocNullMR makes a region of no memory: what is written to it is discarded, and what is read
// from it is 0. An SGE of it stands for the part of a message that nobody wants, or that is
// zeros. Every offset and length is inside. It is for this side's SGEs alone, so [MR.RKey] is 0;
// the kernel has no such object, so [MR.Handle] is 0, and [MR.Query] and [MR.Rereg] are EINVAL.
//
// mlx5 devices have it, on kernels that tell the device's key of it; others are ErrNotSupported.
//
// C: ibv_alloc_null_mr
func (pd *PD) AllocNullMR() (*MR, error) {
	mr := &MR{pd: pd, memory: &memory{file: pd.dev.file}, length: math.MaxInt, null: true}
	if err := mr.attach("MR", &pd.object); err != nil {
		return nil, err
	}
	if p, ok := pd.dev.provider.(driver.NullKeyer); ok {
		if mr.lkey, ok = p.NullKey(); ok {
			return mr, nil
		}
	}
	mr.detach()
	return nil, mr.fail("create", verbs.ErrNotSupported, "the device or its kernel has no region of no memory")
}

// failNull refuses what only regions of the kernel have.
func (mr *MR) failNull(op string) error {
	return mr.fail(op, syscall.EINVAL, "it is a region of no memory, of which the kernel does not know")
}
