package uverbs

import (
	"errors"
	"os"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// OpenNode opens the RDMA device of a device node, such as "/dev/infiniband/uverbs0". The
// node may have any name: its number tells which device it is.
func OpenNode(path string) (*Device, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Node == path {
			return info.Open()
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, &Error{Op: "open", Object: "node", Err: errors.Join(err, skipped), Hint: nodeHint(err, DeviceInfo{Node: path})}
	}
	defer f.Close()
	return OpenFile(f)
}

// OpenFile opens the RDMA device of a descriptor of its node, which another process may
// have opened: a parent, or one that sent it over a Unix socket (SCM_RIGHTS). So a program
// that may not open the node can use the device. The kernel makes one context for a
// descriptor: it must not be in use, and can be used once. The device keeps a copy of the
// descriptor; the caller closes f.
//
// [ImportFile] takes a descriptor that is in use.
func OpenFile(f *os.File) (*Device, error) { return onFile("open", f, DeviceInfo.openOn) }

// onFile finds out which device a descriptor is of.
func onFile(op string, f *os.File, use func(DeviceInfo, ioctl.File) (*Device, error)) (*Device, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, err
	}
	file, rdev, err := ioctl.FromFile(f)
	if err != nil {
		return nil, &Error{Op: op, Object: f.Name(), Err: err}
	}
	for _, info := range infos {
		if info.rdev != 0 && info.rdev == rdev {
			return use(info, file)
		}
	}
	return nil, &Error{Op: op, Object: f.Name(), Err: errors.Join(verbs.ErrNoDevice, skipped, file.Close()),
		Hint: "it is no node of a device; " + haveDevices(infos)}
}
