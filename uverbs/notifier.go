package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Notifier arms the CQs of drivers that are told so with a system call.
type Notifier struct {
	file           ioctl.File
	any, solicited *ioctl.Request
}

func newNotifier(dev *Device, cqHandle uint32) *Notifier {
	request := func(solicited uint32) *ioctl.Request {
		in := &abi.IbUverbsReqNotifyCq{CqHandle: cqHandle, SolicitedOnly: solicited}
		return writeCommand(dev, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, in)
	}
	// Straight to the kernel: a CQ is closed before its device.
	return &Notifier{file: dev.file.File, any: request(0), solicited: request(1)}
}

// Arm asks for one event and allocates nothing. The error is a syscall.Errno.
func (n *Notifier) Arm(solicitedOnly bool) error {
	if solicitedOnly {
		return n.solicited.Do(n.file)
	}
	return n.any.Do(n.file)
}
