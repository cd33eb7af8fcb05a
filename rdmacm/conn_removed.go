package rdmacm

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// because replaces the sign of an end by its reason. When a device is removed, the kernel
// tells each connection of it, one after another. A connection whose peer heard of it first
// finds itself disconnected, or its work flushed, before its own event comes.
func (c *Conn) because(sign error) error {
	if sign != ErrDeviceRemoved && c.ending.isOpen() && c.isBeingRemoved() {
		return ErrDeviceRemoved
	}
	return sign
}

// Explain returns why a call on one of the connection's objects failed with err: the cause of
// the connection's end, or err itself before that is known. All calls to a device that was
// removed fail with EIO, and they may do so before Err tells of the removal. Explain then
// returns ErrDeviceRemoved together with err.
func (c *Conn) Explain(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrDeviceRemoved, err)
	}
	return err
}

// isBeingRemoved tells whether the kernel has begun to remove the device. Before all else
// it then takes the device off its list. That list does not have devices of other network
// namespaces either. But a device that is being removed is still found by its index, and
// one that is gone fails all calls with EIO.
func (c *Conn) isBeingRemoved() bool {
	index := c.Device().Info().Index
	client := netlinkrdma.Client{Kernel: c.hub.kernel.Netlink()}
	listed, err := client.Devices()
	if err != nil || slices.ContainsFunc(listed, func(d netlinkrdma.Device) bool { return d.Index == index }) {
		return false
	}
	if _, err := client.Device(index); err == nil {
		return true
	}
	_, err = c.Device().QueryPort(c.port)
	return errors.Is(err, syscall.EIO)
}
