package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs/rss"
)

// Modify changes the attributes that mask names. Nobody can post meanwhile.
//
// C: ibv_modify_wq
func (w *WQ) Modify(attr *rss.WQAttr, mask rss.WQAttrMask) error {
	if attr == nil {
		return w.fail("modify", syscall.EINVAL, "no attributes")
	}
	return w.using("modify", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.modify(attr, mask); err != nil {
			return w.fail("modify", err, w.modifyHint(err, attr, mask))
		}
		return nil
	})
}

func (w *WQ) modify(attr *rss.WQAttr, mask rss.WQAttrMask) error {
	r := &driver.ModifyWQ{From: w.state, To: w.state}
	if mask&rss.WQAttrState != 0 {
		r.To = attr.State
	}
	c := &call{memory: w.memory}
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		err := w.issueModify(attr, mask, u, extra)
		if err == nil {
			w.state = r.To // whatever the provider says
			if r.To == rss.WQStateReset {
				w.clean()
			}
		}
		return err
	}
	r.Call = c
	if m, ok := w.ring.(driver.WQModifier); ok {
		return m.Modify(r)
	}
	return c.Do(driver.UHW{})
}

func (w *WQ) issueModify(attr *rss.WQAttr, mask rss.WQAttrMask, u driver.UHW, extra []driver.Attr) error {
	in := &abi.IbUverbsExModifyWq{AttrMask: uint32(mask), WqHandle: w.handle, WqState: uint32(attr.State), CurrWqState: uint32(attr.CurState),
		Flags: uint32(attr.Flags), FlagsMask: uint32(attr.Mask)}
	r := writeCommand(w.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ), in)
	defer r.Free()
	return w.dev.doWith(r, u, extra)
}

func (w *WQ) modifyHint(err error, attr *rss.WQAttr, mask rss.WQAttrMask) string {
	if mask&rss.WQAttrState != 0 && w.state == rss.WQStateErr && attr.State == rss.WQStateReady {
		return "a WQ goes from ERR to RDY by RESET"
	}
	return createHint(err)
}
