package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
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
			return cq.fail("resize", verbs.ErrClosed, "")
		}
		if err := cq.resize(entryCount(entries)); err != nil {
			return cq.fail("resize", err, resizeHint(err, entries))
		}
		return nil
	})
}

func (cq *CQ) resize(entries uint32) error {
	resizer, ok := cq.ring.(driver.CQResizer)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := cq.dev.replacement(cq.memory)
	r := &driver.ResizeCQ{Call: c, CQE: entries}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return cq.issueResize(r, u, extra) }
	if err := c.replaced(cq.memory, resizer.Resize(r)); err != nil {
		return err
	}
	cq.cqe = int(r.CQE)
	return nil
}

func (cq *CQ) issueResize(r *driver.ResizeCQ, u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsResizeCqResp
	q := writeCommand(cq.dev, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.IbUverbsResizeCq{CqHandle: cq.handle, Cqe: r.CQE})
	defer q.Free()
	ioctl.Out(q, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := cq.dev.doWith(q, u, extra); err != nil {
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
