//go:build linux

package umad

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func ioctl(fd, request uintptr, arg []byte) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(unsafe.SliceData(arg))))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
