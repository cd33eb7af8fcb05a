package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// cqFlags are the kernel's flags for a CQ.
func cqFlags(r *driver.CreateCQ) uint32 {
	flags := uint32(r.Flags)
	if r.Ext&(verbs.WCExtTimestamp|verbs.WCExtWallClock) != 0 {
		flags |= abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
	}
	return flags
}

// PollExt is [CQ.Poll] of a CQ that was made with [CQOptions].Ext: ext[i] belongs to
// wcs[i]. ext is at least as long as wcs. Completions that were made in user space have
// an empty one.
//
// C: ibv_start_poll, ibv_next_poll, ibv_end_poll
func (cq *CQ) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (int, error) {
	switch {
	case cq.ext == nil:
		return 0, cq.fail("poll", verbs.ErrNotSupported, "it was created without Ext")
	case len(ext) < len(wcs):
		return 0, cq.fail("poll", syscall.EINVAL, "ext is shorter than wcs")
	}
	ext = ext[:len(wcs)]
	cq.mu.Lock()
	if cq.closed {
		cq.mu.Unlock()
		return 0, cq.fail("poll", verbs.ErrClosed, "")
	}
	old := take(wcs, &cq.old)
	take(ext, &cq.oldExt)
	n, _, err := cq.ext.PollExt(wcs[old:], ext[old:])
	n += old
	made := take(wcs[n:], &cq.made)
	clear(ext[n : n+made])
	cq.setOdd()
	n, err = cq.polledBad(wcs, old, n, err)
	return n + made, err
}
