package uverbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Moderate has an armed CQ raise its event at the count-th completion, or at the end of a
// period that begins with the first one, whichever comes first. 1 and 0 raise it at once. The
// period counts in microseconds; [verbs.DeviceAttr] says how much of both a device takes. Drivers in
// software have no moderation.
//
// C: ibv_modify_cq with IBV_CQ_ATTR_MODERATE
func (cq *CQ) Moderate(count uint16, period time.Duration) error {
	const op, moderate = "moderate", 1
	if period < 0 || period.Microseconds() > math.MaxUint16 {
		return cq.fail(op, syscall.EINVAL, fmt.Sprintf("a period is %d µs at most", math.MaxUint16))
	}
	return cq.using(op, func() error {
		in := &abi.IbUverbsExModifyCq{CqHandle: cq.handle, AttrMask: moderate,
			Attr: abi.IbUverbsCqModeration{CqCount: count, CqPeriod: uint16(period.Microseconds())}}
		r := writeCommand(cq.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ), in)
		defer r.Free()
		if err := r.Do(cq.dev.file); err != nil {
			return cq.fail(op, err, cq.moderateHint(err))
		}
		return nil
	})
}

func (cq *CQ) moderateHint(err error) string {
	a, failed := cq.dev.Attr()
	if failed != nil || !errors.Is(err, syscall.EINVAL) {
		return ""
	}
	return fmt.Sprintf("the device takes a count of %d and a period of %d µs at most", a.CQModerationMaxCount, a.CQModerationMaxPeriod)
}
