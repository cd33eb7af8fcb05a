package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Notifier arms the CQs of drivers that are told so with a system call.
type Notifier struct {
	dev            *Device
	cq             uint32
	any, solicited *ioctl.Command // nil until needed, as few CQs need both
}

func newNotifier(dev *Device, cqHandle uint32) *Notifier { return &Notifier{dev: dev, cq: cqHandle} }

// Arm asks for one event and, but for the first time, allocates nothing. The error
// is a syscall.Errno.
func (n *Notifier) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return n.issue(&n.solicited, 1)
	}
	return n.issue(&n.any, 0)
}

func (n *Notifier) issue(c **ioctl.Command, solicited uint32) error {
	if *c == nil {
		in := abi.IbUverbsReqNotifyCq{CqHandle: n.cq, SolicitedOnly: solicited}
		*c = newCommand[abi.IbUverbsReqNotifyCq, struct{}](n.dev, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, in)
	}
	return (*c).Do()
}
