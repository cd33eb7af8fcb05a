package main

import "github.com/goverbs/goverbs/internal/ioctl"

// held is a device's file which keeps a doorbell from the kernel while hold is
// set: nothing else is asked of the kernel then.
type held struct {
	ioctl.File
	hold     bool
	doorbell *ioctl.Request // the last that was held back
}

func (f *held) Ioctl(r *ioctl.Request) error {
	if f.hold {
		f.doorbell = r
		return nil
	}
	return f.File.Ioctl(r)
}
