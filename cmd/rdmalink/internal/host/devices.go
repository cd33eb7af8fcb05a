package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// ForDevices calls f for the device of this name, or for all, and leaves out
// those of all that went away meanwhile.
func (m *Machine) ForDevices(name string, f func(d netlinkrdma.Device) error) error {
	if name != "" {
		d, err := m.RDMA.DeviceByName(name)
		if err != nil {
			return err
		}
		return Named(d, f(d))
	}
	devices, err := m.RDMA.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if err := f(d); err != nil && !errors.Is(err, netlinkrdma.ErrNotFound) {
			return Named(d, err)
		}
	}
	return nil
}

// deviceError is an error of netlinkrdma, which knows only the number of the
// device, with the name in its place.
type deviceError struct {
	error
	device netlinkrdma.Device
}

func Named(d netlinkrdma.Device, err error) error {
	if err == nil {
		return nil
	}
	return deviceError{err, d}
}

func (e deviceError) Error() string {
	return strings.Replace(e.error.Error(), fmt.Sprintf("RDMA device %d", e.device.Index), e.device.Name, 1)
}

func (e deviceError) Unwrap() error { return e.error }
