package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// WCExt is what stands beside a WC on a CQ that was made with [CQOptions].Ext.
//
// C: the ibv_wc_read_… functions
type WCExt = driver.Ext

// WCExtFlags say more of a received packet.
type WCExtFlags = driver.ExtFlags

// WCExtMask says which fields of a WCExt are wanted; the values combine with |.
//
// C: enum ibv_create_cq_wc_flags, the part that struct ibv_wc lacks
type WCExtMask = driver.ExtMask

// One bit a field. Documented at [driver.ExtMask].
const (
	WCExtTimestamp WCExtMask = driver.ExtTimestamp
	WCExtFlowTag   WCExtMask = driver.ExtFlowTag
	WCExtVLAN      WCExtMask = driver.ExtVLAN
	WCExtChecksum  WCExtMask = driver.ExtChecksum
	WCExtWallClock WCExtMask = driver.ExtWallClock
)

// WCExtChecksumOK is one of WCExt.Flags.
const WCExtChecksumOK WCExtFlags = driver.ExtChecksumOK

// CQFlags refine a new CQ; the values combine with |.
//
// C: enum ibv_create_cq_attr_flags
type CQFlags = driver.CQFlags

// CQIgnoreOverrun says that the device need not watch for completions that find no room.
const CQIgnoreOverrun CQFlags = driver.CQIgnoreOverrun

// cqFlags are the kernel's flags for a CQ.
func cqFlags(r *driver.CreateCQ) uint32 {
	flags := uint32(r.Flags)
	if r.Ext&(driver.ExtTimestamp|driver.ExtWallClock) != 0 {
		flags |= abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
	}
	return flags
}

// PollExt is [CQ.Poll] of a CQ that was made with [CQOptions].Ext: ext[i] belongs to
// wcs[i]. ext is at least as long as wcs. Completions that were made in user space have
// an empty one.
//
// C: ibv_start_poll, ibv_next_poll, ibv_end_poll
func (cq *CQ) PollExt(wcs []WC, ext []WCExt) (int, error) {
	switch {
	case cq.ext == nil:
		return 0, cq.fail("poll", ErrNotSupported, "it was created without Ext")
	case len(ext) < len(wcs):
		return 0, cq.fail("poll", syscall.EINVAL, "ext is shorter than wcs")
	}
	ext = ext[:len(wcs)]
	cq.mu.Lock()
	if cq.closed {
		cq.mu.Unlock()
		return 0, cq.fail("poll", ErrClosed, "")
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
