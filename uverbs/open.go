package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// Open opens the RDMA device with the given name, such as "siw0".
//
// C: ibv_open_device
func Open(name string) (*Device, error) {
	return find(name, func(info DeviceInfo) bool { return info.Name == name })
}

// OpenIndex opens the RDMA device with the given kernel index, by which the connection
// manager identifies devices. guid is the device's node GUID. If netlink is not available,
// OpenIndex finds the device by guid alone, because sysfs has no indexes.
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
	return nil, &verbs.Error{Op: "open", Object: what, Err: errors.Join(verbs.ErrNoDevice, skipped), Hint: haveDevices(infos)}
}

// OpenNetdev opens the RDMA device that has a port on the named network interface, such as
// "eth0", and returns the port's number. It needs netlink. VLANs and bonds have no RDMA
// device of their own. For these, name the underlying interface, or open the device of an IP
// address with rdmacm.OpenDevice.
func OpenNetdev(name string) (*Device, int, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, 0, err
	}
	var have []string
	for _, info := range infos {
		ports, err := (&netlinkrdma.Client{Kernel: info.listedBy}).Ports(info.Index)
		skipped = errors.Join(skipped, err)
		for _, p := range ports {
			if p.NetdevName == name {
				d, err := info.Open()
				return d, p.Index, err
			}
			if p.NetdevName != "" {
				have = append(have, fmt.Sprintf("%s (%s)", p.NetdevName, info.Name))
			}
		}
	}
	hint := haveDevices(infos)
	if len(have) > 0 {
		hint = "RDMA devices are on " + strings.Join(have, ", ")
	}
	return nil, 0, &verbs.Error{Op: "open", Object: "device on " + name, Err: errors.Join(verbs.ErrNoDevice, skipped), Hint: hint}
}

// OpenNode opens the RDMA device of a device node, such as "/dev/infiniband/uverbs0". The
// node may have any name: its device number identifies the device.
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
		return nil, &verbs.Error{Op: "open", Object: "node", Err: errors.Join(err, skipped), Hint: nodeHint(err, DeviceInfo{Node: path})}
	}
	defer f.Close()
	return OpenFile(f)
}

// OpenFile opens the RDMA device of an open file of its node. Another process may have opened
// the file: a parent, or a process that sent it over a Unix socket (SCM_RIGHTS). So a program
// without permission to open the node can use the device. The kernel creates one context for
// each open file, so the file must not be in use and can be used only once. The Device has a
// duplicate of the descriptor; the caller closes f.
//
// [ImportFile] takes a file that is in use.
func OpenFile(f *os.File) (*Device, error) { return onFile("open", f, DeviceInfo.openOn) }

// onFile calls use with the device that f belongs to and a duplicate of f.
func onFile(op string, f *os.File, use func(DeviceInfo, ioctl.File) (*Device, error)) (*Device, error) {
	infos, skipped, err := list()
	if err != nil {
		return nil, err
	}
	file, rdev, err := ioctl.FromFile(f)
	if err != nil {
		return nil, &verbs.Error{Op: op, Object: f.Name(), Err: err}
	}
	for _, info := range infos {
		if info.rdev != 0 && info.rdev == rdev {
			return use(info, file)
		}
	}
	return nil, &verbs.Error{Op: op, Object: f.Name(), Err: errors.Join(verbs.ErrNoDevice, skipped, file.Close()),
		Hint: "it is not the node of a device, or the device has been removed; " + haveDevices(infos)}
}

// OpenPCI opens the RDMA device of a PCI function, such as "0000:3b:00.0". The domain
// defaults to 0000. OpenPCI reads sysfs. Software devices have no PCI address.
func OpenPCI(address string) (*Device, error) {
	name, err := pciDevice("/sys", address)
	if err != nil {
		return nil, err
	}
	return Open(name)
}

// pciDevice returns the name of the first RDMA device of a PCI function.
func pciDevice(root, address string) (string, error) {
	if strings.Count(address, ":") == 1 {
		address = "0000:" + address
	}
	functions := filepath.Join(root, "bus/pci/devices")
	entries, err := os.ReadDir(filepath.Join(functions, strings.ToLower(address), "infiniband"))
	if err == nil && len(entries) > 0 {
		return entries[0].Name(), nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = verbs.ErrNoDevice
	}
	return "", &verbs.Error{Op: "open", Object: "device at PCI address " + address, Err: err, Hint: havePCI(functions)}
}

func havePCI(functions string) string {
	with, _ := filepath.Glob(filepath.Join(functions, "*/infiniband"))
	if len(with) == 0 {
		return "no PCI function has an RDMA device"
	}
	var addresses []string
	for _, dir := range with {
		addresses = append(addresses, filepath.Base(filepath.Dir(dir)))
	}
	slices.Sort(addresses)
	return "RDMA devices are at " + strings.Join(addresses, ", ")
}
