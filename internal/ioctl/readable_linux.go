package ioctl

import (
	"time"

	"golang.org/x/sys/unix"
)

// readable waits at most limit for something to read.
func readable(fd uintptr, limit time.Duration) bool {
	// Linux writes what is left of the time to it.
	timeout := unix.NsecToTimespec(limit.Nanoseconds())
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], &timeout, nil)
	return n > 0 && err == nil
}
