package uverbs

import (
	"context"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// prefetchStep is how much Prefetch asks for at once, in bytes.
const prefetchStep = 64 << 20

// Prefetch has a region with AccessOnDemand be there before work requests name it: n bytes from
// off on, to be written with MRPrefetchWrite, or to be read. It asks for 64 MiB at a time, and
// tells progress, unless it is nil, of all that is there after each; then it looks at ctx. What
// was there may be gone again when memory is short.
//
// C: ibv_advise_mr with IBV_ADVISE_MR_FLAG_FLUSH
func (mr *MR) Prefetch(ctx context.Context, advice verbs.MRAdvice, off, n int, progress func(done int)) error {
	if off < 0 || n < 0 {
		return mr.fail("prefetch", syscall.EINVAL, "the offset or the length is negative")
	}
	for done := 0; done < n; {
		if err := ctx.Err(); err != nil {
			return mr.fail("prefetch", err, "")
		}
		step := min(n-done, prefetchStep)
		if err := mr.pd.AdviseMR(advice, true, []verbs.SGE{mr.SGE(off+done, step)}); err != nil {
			return err
		}
		if done += step; progress != nil {
			progress(done)
		}
	}
	return nil
}
