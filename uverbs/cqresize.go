package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Resize gives the CQ room for at least entries completions, which may be fewer
// than before but not fewer than it holds. Those it holds stay. Where the driver
// can't, the error matches ErrNotSupported and nothing has changed.
//
// C: ibv_resize_cq
func (cq *CQ) Resize(entries int) error {
	return cq.using("resize", func() error {
		cq.mu.Lock()
		defer cq.mu.Unlock()
		if cq.closed {
			return cq.fail("resize", ErrClosed, "")
		}
		r := &CQRequest{CQE: entryCount(entries), Handle: cq.handle, dev: cq.dev}
		r.creation = cq.dev.creation(func(u UHW) error { return cq.issueResize(r, u) })
		if err := cq.ring.Resize(r); err != nil {
			return cq.fail("resize", errors.Join(err, r.free()), resizeHint(err, entries))
		}
		old := cq.memory
		cq.cqe, cq.memory = int(r.CQE), r.queueMemory
		return old.free()
	})
}

func (cq *CQ) issueResize(r *CQRequest, u UHW) error {
	var resp abi.IbUverbsResizeCqResp
	q := writeCommand(cq.dev, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.IbUverbsResizeCq{CqHandle: cq.handle, Cqe: r.CQE})
	defer q.Free()
	ioctl.Out(q, abi.UVERBS_ATTR_CORE_OUT, &resp)
	q.Driver(u)
	if err := q.Do(cq.dev.file); err != nil {
		return err
	}
	r.CQE = resp.Cqe
	return nil
}

func resizeHint(err error, entries int) string {
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("%d is more than the device allows (DeviceAttr.MaxCQE), or less than the CQ holds", entries)
	}
	return ""
}
