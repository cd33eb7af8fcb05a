package uverbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Provider tells, without opening the device, whether this program links a
// provider for it: nil, or an error that matches ErrNoProvider and says what is
// missing. Without one, a device can be opened and asked, and its events read;
// what has queues, and memory regions, can't be made. Of a device that only sysfs
// told about the driver is not known.
func (info DeviceInfo) Provider() error {
	p := driver.Lookup(info.Driver)
	if p == nil {
		return info.noProvider(fmt.Sprintf("this program links none for driver %v", info.Driver))
	}
	if why := info.foreign(p); why != "" {
		return info.noProvider(why)
	}
	return nil
}

// foreign says why a provider is not for this kernel, or nothing.
func (info DeviceInfo) foreign(p driver.Driver) string {
	if low, high := p.ABI(); info.ABI < low || info.ABI > high {
		return fmt.Sprintf("the kernel's %v driver speaks ABI %d, the provider linked in %d to %d", info.Driver, info.ABI, low, high)
	}
	return ""
}

func (info DeviceInfo) noProvider(why string) error {
	return &Error{Op: "use", Object: "device", Device: info.Name, Err: verbs.ErrNoProvider, Hint: why}
}
