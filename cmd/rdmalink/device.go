package main

import (
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// change has f do something to the device of this name; what says what.
func (t *tool) change(what, name string, f func(device uint32) error) error {
	d, err := t.RDMA.DeviceByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return host.Named(d, f(d.Index))
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
