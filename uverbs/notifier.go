package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Notifier arms the CQs of drivers that are told so with a system call.
type Notifier struct{ any, solicited *ioctl.Command }

func newNotifier(dev *Device, cqHandle uint32) *Notifier {
	command := func(solicited uint32) *ioctl.Command {
		in := abi.IbUverbsReqNotifyCq{CqHandle: cqHandle, SolicitedOnly: solicited}
		return newCommand[abi.IbUverbsReqNotifyCq, struct{}](dev, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, in)
	}
	return &Notifier{any: command(0), solicited: command(1)}
}

// Arm asks for one event and allocates nothing. The error is a syscall.Errno.
func (n *Notifier) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return n.solicited.Do()
	}
	return n.any.Do()
}
