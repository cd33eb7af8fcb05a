package uverbs

import (
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Open opens the RDMA device of that name, such as "siw0".
//
// C: ibv_open_device
func Open(name string) (*Device, error) {
	return find(name, func(info DeviceInfo) bool { return info.Name == name })
}

// OpenIndex opens the RDMA device with that kernel index, which is how
// connection management names the device it chose. guid is the device's node
// GUID, which settles it where only sysfs could be asked, and sysfs knows no
// indexes.
func OpenIndex(index uint32, guid verbs.GUID) (*Device, error) {
	return find(fmt.Sprintf("device index %d", index), func(info DeviceInfo) bool {
		return info.NodeGUID == guid && (info.Index == index || info.Driver == verbs.DriverUnknown)
	})
}

func find(what string, match func(DeviceInfo) bool) (*Device, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if match(info) {
			return info.Open()
		}
	}
	return nil, &Error{Op: "open", Object: what, Err: errors.Join(verbs.ErrNoDevice, skipped), Hint: haveDevices(infos)}
}
