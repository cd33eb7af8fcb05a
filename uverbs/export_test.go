package uverbs

import (
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ImportOn imports a device that is open on a fake kernel.
func ImportOn(info DeviceInfo, file ioctl.File) (*Device, error) { return info.importOn(file) }
