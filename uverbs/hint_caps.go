package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// limit is a number that was asked for, and the most that there can be.
type limit struct {
	field       string
	asked, most uint32
	from        string // the field of DeviceAttr that says so
}

// capHint names what was more than the device allows, for which the kernel has no
// word but EINVAL.
func (d *Device) capHint(err error, limits func(*verbs.DeviceAttr) []limit) string {
	if !errors.Is(err, syscall.EINVAL) {
		return createHint(err)
	}
	attr, err := d.Attr()
	if err != nil {
		return ""
	}
	for _, l := range limits(attr) {
		if l.asked > l.most {
			return fmt.Sprintf("%s %d is more than the device allows, which is %d (DeviceAttr.%s)", l.field, l.asked, l.most, l.from)
		}
	}
	return ""
}

func (qp *QP) createHint(err error, c verbs.QPCap) string {
	if hint := qp.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{
			{"MaxSendWR", c.MaxSendWR, a.MaxQPWR, "MaxQPWR"}, {"MaxRecvWR", c.MaxRecvWR, a.MaxQPWR, "MaxQPWR"},
			{"MaxSendSGE", c.MaxSendSGE, a.MaxSGE, "MaxSGE"}, {"MaxRecvSGE", c.MaxRecvSGE, a.MaxSGE, "MaxSGE"},
		}
	}); hint != "" || c.MaxInline == 0 || !errors.Is(err, syscall.EINVAL) {
		return hint
	}
	return fmt.Sprintf("MaxInline %d may be more than the driver allows, which does not tell how much that is", c.MaxInline)
}

func (s *SRQ) createHint(err error, o *SRQOptions) string {
	if o.MaxWR == 0 && errors.Is(err, syscall.EINVAL) {
		return "MaxWR is 0"
	}
	return s.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{{"MaxWR", o.MaxWR, a.MaxSRQWR, "MaxSRQWR"}, {"MaxSGE", o.MaxSGE, a.MaxSRQSGE, "MaxSRQSGE"}}
	})
}

func (cq *CQ) createHint(err error, entries int, vector uint32) string {
	if vector >= cq.dev.compVectors && errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("CompVector %d is not below Device.CompVectors, which is %d", vector, cq.dev.compVectors)
	}
	return cq.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{{"entries", entryCount(entries), a.MaxCQE, "MaxCQE"}}
	})
}
