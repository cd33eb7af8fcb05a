package ioctl

import (
	"errors"
	"syscall"
)

// ErrStaleNode means that a device node has another number than the device it
// is named after: it was left behind by one that is gone.
var ErrStaleNode = errors.New("device node belongs to another device (stale node; recreate it from the kernel's device number)")

// Unsupported tells whether err is one of the several errnos by which the RDMA
// stack says that an object, a method, a command or a feature is not there.
func Unsupported(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.EPROTONOSUPPORT, // no such ioctl object, method or mandatory attribute
		syscall.EOPNOTSUPP, // no such write command, or the driver says no
		syscall.ENOSYS,     // rdma_cm's GET_OPTION
		syscall.ENOTTY:     // not a uverbs device, or a kernel without the ioctl
		return true
	}
	return false
}
