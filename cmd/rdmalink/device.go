package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// forDevices calls f for the device of this name, or for all, and leaves out
// those of all that went away meanwhile.
func (t *tool) forDevices(name string, f func(d netlinkrdma.Device) error) error {
	if name != "" {
		d, err := t.rdma.DeviceByName(name)
		if err != nil {
			return err
		}
		return named(d, f(d))
	}
	devices, err := t.rdma.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := f(d); err != nil && !errors.Is(err, netlinkrdma.ErrNotFound) {
			return named(d, err)
		}
	}
	return nil
}

// change has f do something to the device of this name; what says what.
func (t *tool) change(what, name string, f func(device uint32) error) error {
	d, err := t.rdma.DeviceByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return named(d, f(d.Index))
}

// takeDeleted takes the name of a device, which ends the line, and has f delete
// it.
func (t *tool) takeDeleted(w *words, f func(device uint32) error) error {
	name, err := w.value("DEV")
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return t.change("delete "+name, name, f)
}

// noPort is the error when a device has no such port.
func noPort(d netlinkrdma.Device, port uint32) error {
	return fmt.Errorf("%s has no port %d, it has %d", d.Name, port, d.Ports)
}

// deviceError is an error of netlinkrdma, which knows only the number of the
// device, with the name in its place.
type deviceError struct {
	error
	device netlinkrdma.Device
}

func named(d netlinkrdma.Device, err error) error {
	if err == nil {
		return nil
	}
	return deviceError{err, d}
}

func (e deviceError) Error() string {
	return strings.Replace(e.error.Error(), fmt.Sprintf("RDMA device %d", e.device.Index), e.device.Name, 1)
}

func (e deviceError) Unwrap() error { return e.error }
