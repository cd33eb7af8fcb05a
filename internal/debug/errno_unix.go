//go:build unix

package debug

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoName returns the name of an errno, for instance ENODEV, or "".
func errnoName(errno syscall.Errno) string { return unix.ErrnoName(errno) }
