package uverbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// DeviceInfo describes a device that need not be open.
type DeviceInfo struct {
	Name     string         // siw0
	Index    uint32         // the kernel's number for it; 0 if it was found in sysfs
	Driver   verbs.DriverID // DriverUnknown if it was found in sysfs; Open finds out
	ABI      uint32         // version of the driver's private ABI
	NodeType verbs.NodeType
	NodeGUID verbs.GUID
	Ports    int    // 0 if it was found in sysfs
	Node     string // path of the device node
	rdev     uint64 // required number of the node; 0 if it has none

	listedBy netlinkrdma.Kernel // nil for the running kernel
}

// Devices lists the RDMA devices that can be opened. It asks the kernel over netlink, which
// needs no file system except /dev. If netlink fails, it reads sysfs.
//
// C: ibv_get_device_list
func Devices() ([]DeviceInfo, error) {
	infos, _, err := list()
	return infos, err
}

// list is Devices, and also returns why it skipped devices. Devices of registered kernels
// come last. If there are any, an error of the running kernel is only returned as skipped, and not at
// all if that kernel has no RDMA.
func list() (infos []DeviceInfo, skipped, err error) {
	infos, skipped, err = listRunning()
	for _, k := range kernel.Registered() {
		more, why, failed := devicesFromNetlink(k.Netlink())
		infos, skipped = append(infos, more...), errors.Join(skipped, why, failed)
	}
	switch {
	case err == nil || len(infos) == 0:
		return infos, skipped, err
	case errors.Is(err, errors.ErrUnsupported):
		return infos, skipped, nil
	}
	return infos, errors.Join(err, skipped), nil
}

func listRunning() (infos []DeviceInfo, skipped, err error) {
	infos, skipped, err = devicesFromNetlink(kernel.Running.Netlink())
	if err == nil {
		return infos, skipped, nil
	}
	infos, sysErr := devicesFromSysfs("/sys")
	if sysErr != nil {
		return nil, nil, &verbs.Error{Op: "list", Object: "devices", Err: errors.Join(err, sysErr), Hint: "is the RDMA core loaded? (`modprobe ib_uverbs`)"}
	}
	return infos, nil, nil
}

func devicesFromNetlink(k netlinkrdma.Kernel) (infos []DeviceInfo, skipped, err error) {
	nl := netlinkrdma.Client{Kernel: k}
	if k == nil {
		var s netlinkrdma.Socket
		defer s.Close()
		nl.Kernel = &s
	}
	devices, err := nl.Devices()
	if err != nil {
		return nil, nil, err
	}
	for _, d := range devices {
		c, err := nl.UverbsCharDev(d.Index)
		if err != nil {
			skipped = errors.Join(skipped, err)
			continue // no uverbs node, such as an InfiniBand SMI device; or gone since
		}
		infos = append(infos, DeviceInfo{
			Name: d.Name, Index: d.Index, Driver: verbs.DriverID(c.DriverID), ABI: uint32(c.ABI),
			NodeType: d.NodeType, NodeGUID: d.NodeGUID, Ports: d.Ports,
			Node: "/dev/infiniband/" + c.Name, rdev: makedev(c.Major, c.Minor), listedBy: k,
		})
	}
	if len(infos) == 0 && skipped != nil {
		return nil, nil, skipped
	}
	return infos, skipped, nil
}

// Open opens the device.
//
// C: ibv_open_device
func (info DeviceInfo) Open() (*Device, error) {
	f, err := kernel.OpenDevice(info.Node, info.rdev)
	if err != nil {
		return nil, &verbs.Error{Op: "open", Object: "device", Device: info.Name, Err: err, Hint: nodeHint(err, info)}
	}
	return info.openOn(f)
}

// openOn opens the device on a descriptor of its node.
func (info DeviceInfo) openOn(f ioctl.File) (*Device, error) {
	if info.Driver == verbs.DriverUnknown {
		info.Driver = probeDriver(f)
	}
	return newDevice(info, f, (*Device).getContext)
}

// maxKnownDriver is above all driver ids in use.
const maxKnownDriver = 64

// probeDriver finds the driver id without netlink. The kernel checks a request's driver id
// before the object, so a request for an object that can't exist fails with another error
// once the id is right.
func probeDriver(f ioctl.File) verbs.DriverID {
	const noObject = 0xfff
	for id := verbs.DriverUnknown; id < maxKnownDriver; id++ {
		r := ioctl.New(uint32(id), noObject, 0)
		err := r.Do(f)
		r.Free()
		if ioctl.Unsupported(err) {
			return id
		}
	}
	return verbs.DriverUnknown
}

func haveDevices(infos []DeviceInfo) string {
	if len(infos) == 0 {
		return "there are none; `rdmalink add siw0 type siw netdev eth0` adds a software device"
	}
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = fmt.Sprintf("%s (%v, index %d)", info.Name, info.Driver, info.Index)
	}
	return "there are " + strings.Join(names, ", ")
}

// devicesFromSysfs lists the devices in sysfs, which is mounted at root. sysfs has less
// information than netlink, but works where a sandbox forbids netlink sockets.
func devicesFromSysfs(root string) ([]DeviceInfo, error) {
	class := filepath.Join(root, "class/infiniband_verbs")
	entries, err := os.ReadDir(class)
	if err != nil {
		return nil, err
	}
	var infos []DeviceInfo
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "uverbs") {
			continue // the directory has attributes too
		}
		info, err := deviceFromSysfs(root, filepath.Join(class, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // unplugged meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func deviceFromSysfs(root, dir string) (DeviceInfo, error) {
	attr := sysfsReader{}
	info := DeviceInfo{Name: attr.text(dir, "ibdev"), Node: "/dev/infiniband/" + filepath.Base(dir)}
	info.ABI = uint32(attr.number(dir, "abi_version", 10))
	major, minor, _ := strings.Cut(attr.text(dir, "dev"), ":")
	ma, errMajor := strconv.ParseUint(major, 10, 32)
	mi, errMinor := strconv.ParseUint(minor, 10, 32)
	if attr.err == nil && (errMajor != nil || errMinor != nil) {
		return info, fmt.Errorf("%s/dev: %s:%s is not a device number", dir, major, minor)
	}
	info.rdev = makedev(uint32(ma), uint32(mi))
	ib := filepath.Join(root, "class/infiniband", info.Name)
	nodeType, _, _ := strings.Cut(attr.text(ib, "node_type"), ":")
	if n, err := strconv.ParseUint(nodeType, 10, 8); err == nil {
		info.NodeType = verbs.NodeType(n)
	}
	guid, err := strconv.ParseUint(strings.ReplaceAll(attr.text(ib, "node_guid"), ":", ""), 16, 64)
	if err == nil {
		info.NodeGUID = verbs.GUID(guid)
	}
	return info, attr.err
}

// sysfsReader reads attribute files and remembers the first error.
type sysfsReader struct{ err error }

func (r *sysfsReader) text(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil && r.err == nil {
		r.err = err
	}
	return strings.TrimSpace(string(b))
}

func (r *sysfsReader) number(dir, name string, base int) uint64 {
	s := r.text(dir, name)
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s/%s: %q is not a number", dir, name, s)
	}
	return n
}

// Provider reports whether this program links a provider for the device, without opening it.
// It returns nil, or an error that matches ErrNoProvider and says what is missing. Without a
// provider, a device can be opened and queried, its events can be read, and PDs and memory
// regions can be created, but no objects with queues. For a device that was found in sysfs, the driver
// is not known.
func (info DeviceInfo) Provider() error {
	p := driver.Lookup(info.Driver)
	if p == nil {
		return info.noProvider(fmt.Sprintf("this program links no provider for driver %v", info.Driver))
	}
	if why := info.mismatch(p); why != "" {
		return info.noProvider(why)
	}
	return nil
}

// mismatch returns why a provider does not fit the kernel's driver, or "".
func (info DeviceInfo) mismatch(p driver.Driver) string {
	if low, high := p.ABI(); info.ABI < low || info.ABI > high {
		return fmt.Sprintf("the kernel's %v driver has ABI %d, the linked provider supports %d to %d", info.Driver, info.ABI, low, high)
	}
	return ""
}

func (info DeviceInfo) noProvider(why string) error {
	return &verbs.Error{Op: "use", Object: "device", Device: info.Name, Err: verbs.ErrNoProvider, Hint: why}
}
