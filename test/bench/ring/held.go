package main

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// held is a device's file which keeps a doorbell from the kernel while hold is
// set: nothing else is asked of the kernel then.
type held struct {
	ioctl.File
	hold     bool
	doorbell []byte // the last that was held back
}

// Command takes doorbells, and arms.
func (f *held) Command(wire []byte) error {
	if f.hold {
		f.doorbell = wire
		return nil
	}
	if c, ok := f.File.(ioctl.Commander); ok {
		return c.Command(wire)
	}
	return syscall.EACCES
}
