package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Doorbell is the doorbell of drivers that have none in hardware: POST_SEND
// with no work request in it tells the kernel to look at the send queue.
type Doorbell struct {
	file ioctl.File
	req  *ioctl.Request
}

func newDoorbell(dev *Device, qpHandle uint32) *Doorbell {
	in := &abi.IbUverbsPostSend{QpHandle: qpHandle, WqeSize: sendWRSize}
	r := writeCommand(dev, abi.IB_USER_VERBS_CMD_POST_SEND, in)
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, new(abi.IbUverbsPostSendResp))
	// Straight to the kernel: a QP is closed before its device.
	return &Doorbell{file: dev.file.File, req: r}
}

// Ring issues the doorbell and allocates nothing. The error is a syscall.Errno.
func (d *Doorbell) Ring() error { return d.req.Do(d.file) }
