package uverbs

import (
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ImportOn imports a device that is open on a kernel that stands in for the real one.
func ImportOn(info DeviceInfo, file ioctl.File) (*Device, error) { return info.importOn(file) }
