package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Doorbell is the doorbell of drivers that have none in hardware: POST_SEND
// with no work request in it tells the kernel to look at the send queue.
type Doorbell struct{ send *ioctl.Command }

func newDoorbell(dev *Device, qpHandle uint32) *Doorbell {
	in := abi.IbUverbsPostSend{QpHandle: qpHandle, WqeSize: sendWRSize}
	return &Doorbell{newCommand[abi.IbUverbsPostSend, abi.IbUverbsPostSendResp](dev, abi.IB_USER_VERBS_CMD_POST_SEND, in)}
}

// Ring issues the doorbell and allocates nothing. The error is a syscall.Errno.
func (d *Doorbell) Ring() error { return d.send.Do() }
