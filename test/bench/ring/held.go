package main

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// held is the file of a device. While hold is set, it holds back the doorbell. No other command is
// issued then.
type held struct {
	ioctl.File
	hold     bool
	doorbell []byte // the last doorbell that was held back
}

// Command issues doorbells and arms.
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
