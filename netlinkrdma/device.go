package netlinkrdma

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Device is an RDMA device as the kernel lists it.
type Device struct {
	Index        uint32 // the kernel's handle; not reused while the device exists
	Name         string // for instance siw0
	Ports        int    // ports are numbered from 1 to this
	CapFlags     uint64 // device capability flags (IB_DEVICE_…)
	FWVersion    string // empty when the device has no firmware
	NodeGUID     verbs.GUID
	SysImageGUID verbs.GUID
	NodeType     verbs.NodeType
	Protocol     string // ib, roce, iw, opa or usnic; empty on kernels before 4.20
	// AdaptiveModeration reports whether the device adapts the interrupt moderation of the
	// kernel's own CQs to the load.
	AdaptiveModeration Opt[bool]
	Type               DeviceType          // DeviceOrdinary unless it is a sub-device
	Parent             string              // the device a sub-device belongs to
	NameAssign         Opt[NameAssignType] // not known on Linux 6.1
}

// Devices lists the RDMA devices that the calling thread's network namespace sees, in the
// kernel's order. It is not an error if there are none.
//
// C: ibv_get_device_list, rdma dev show
func (c *Client) Devices() ([]Device, error) {
	op := operation{"list", "RDMA devices"}
	replies, err := c.call(op, Request{Op: abi.RDMA_NLDEV_CMD_GET, Dump: true})
	if err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(replies))
	for _, reply := range replies {
		d, err := parseDevice(reply)
		if err != nil {
			return nil, op.failed(err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Device returns the device with this index.
func (c *Client) Device(index uint32) (Device, error) {
	op := operation{"find", numbered(index)}
	reply, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_GET, Attrs: []Attr{byIndex(index)}})
	if err != nil {
		return Device{}, err
	}
	d, err := parseDevice(reply)
	if err != nil {
		return Device{}, op.failed(err)
	}
	return d, nil
}

// IsListed reports whether the kernel lists the device with this index. When the kernel begins to
// remove a device, it takes it off the list first, and Device still finds it until it is gone.
// IsListed reads the list up to that device, so it takes fewer system calls than Devices.
func (c *Client) IsListed(index uint32) (listed bool, err error) {
	op := operation{"find in the list", numbered(index)}
	var malformed error
	err = c.stream(op, Request{Op: abi.RDMA_NLDEV_CMD_GET, Dump: true}, func(reply []byte) bool {
		d, err := parseDevice(reply)
		if err != nil {
			malformed = op.failed(err)
			return false
		}
		listed = d.Index == index
		return !listed
	}, func() bool { return true })
	return listed, errors.Join(err, malformed)
}

// DeviceByName returns the device with this name. If there is none, the error matches
// [ErrNotFound] and lists all devices.
func (c *Client) DeviceByName(name string) (Device, error) {
	devices, err := c.Devices()
	if err != nil {
		return Device{}, err
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		if d.Name == name {
			return d, nil
		}
		names[i] = d.Name
	}
	none := &verbs.Error{Op: "find", Object: fmt.Sprintf("RDMA device %q", name), Err: ErrNotFound, Hint: "there are none"}
	if len(names) > 0 {
		none.Hint = "there are " + strings.Join(names, ", ")
	}
	return Device{}, none
}

func parseDevice(reply []byte) (Device, error) {
	var d Device
	var index bool
	a := attributes{rest: reply}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			d.Index, index = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			d.Name = a.string()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			d.Ports = int(a.uint32())
		case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
			d.CapFlags = a.uint64()
		case abi.RDMA_NLDEV_ATTR_FW_VERSION:
			d.FWVersion = a.string()
		case abi.RDMA_NLDEV_ATTR_NODE_GUID:
			d.NodeGUID = verbs.GUID(a.uint64())
		case abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID:
			d.SysImageGUID = verbs.GUID(a.uint64())
		case abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:
			d.NodeType = verbs.NodeType(a.uint8())
		case abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:
			d.Protocol = a.string()
		default:
			parseDeviceOrigin(&d, &a)
		}
	}
	a.require(index, abi.RDMA_NLDEV_ATTR_DEV_INDEX)
	a.require(d.Name != "", abi.RDMA_NLDEV_ATTR_DEV_NAME)
	if a.err != nil {
		return Device{}, a.err
	}
	return d, nil
}

// parseDeviceOrigin parses the attributes about the device's origin and its moderation.
func parseDeviceOrigin(d *Device, a *attributes) {
	switch a.typ {
	case abi.RDMA_NLDEV_ATTR_DEV_DIM:
		if v := a.uint8(); v <= 1 {
			d.AdaptiveModeration = known(v == 1)
		}
	case abi.RDMA_NLDEV_ATTR_DEV_TYPE:
		d.Type = DeviceType(a.uint8())
	case abi.RDMA_NLDEV_ATTR_PARENT_NAME:
		d.Parent = a.string()
	case abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE:
		d.NameAssign = known(NameAssignType(a.uint8()))
	}
}

// DeviceType is the purpose of a sub-device.
//
// C: enum rdma_nl_dev_type
type DeviceType uint8

// The types of devices.
const (
	DeviceOrdinary DeviceType = 0
	DeviceSMI      DeviceType = 1 // has the subnet management interface of its parent
)

// String returns iproute2's word, "" for an ordinary device, or DeviceType(27) for a value
// without a word.
func (t DeviceType) String() string {
	switch t {
	case DeviceOrdinary:
		return ""
	case DeviceSMI:
		return "smi"
	}
	return fmt.Sprintf("DeviceType(%d)", uint8(t))
}

// NameAssignType is the origin of a device's name.
//
// C: enum rdma_nl_name_assign_type
type NameAssignType uint8

// The origins of names.
const (
	NameAssignUnknown NameAssignType = abi.RDMA_NAME_ASSIGN_TYPE_UNKNOWN
	NameAssignUser    NameAssignType = abi.RDMA_NAME_ASSIGN_TYPE_USER // udev rules must not change it
)

var nameAssignNames = [...]string{"UNKNOWN", "USER"}

// String returns USER, UNKNOWN, or NameAssignType(27) for a value without a word.
func (t NameAssignType) String() string {
	return wordFor("NameAssignType", nameAssignNames[:], uint8(t))
}

// RenameDevice renames the device with this index. The index does not change. Names are
// restricted as in [Client.AddLink]. It needs CAP_NET_ADMIN, and fails with EEXIST if a
// device in any namespace has that name.
//
// C: rdma dev set DEV name NAME
func (c *Client) RenameDevice(device uint32, name string) error {
	op := operation{"rename", numbered(device) + " to " + name}
	if err := checkName("name", name, maxDeviceName); err != nil {
		return op.failed(err)
	}
	err := c.setDevice(op, device, Attr{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)})
	return hint(err, syscall.EEXIST, "another device has that name, possibly in another network namespace")
}

// SetAdaptiveModeration turns adaptive interrupt moderation on or off for CQs that the
// kernel creates from then on. It needs CAP_NET_ADMIN.
//
// C: rdma dev set DEV adaptive-moderation on
func (c *Client) SetAdaptiveModeration(device uint32, on bool) error {
	op := operation{"set adaptive moderation of", fmt.Sprintf("%s to %t", numbered(device), on)}
	return c.setDevice(op, device, Attr{abi.RDMA_NLDEV_ATTR_DEV_DIM, boolValue(on)})
}

// MoveDevice moves the device with this index to another network namespace. to is an open
// /run/netns/NAME or /proc/PID/ns/net. Programs that have the device open lose it. The call
// needs CAP_NET_ADMIN in both namespaces, exclusive mode (see [Client.SetNetnsMode]), and a
// driver that can disassociate a device from its users. siw and rxe cannot.
//
// To move the device back, call MoveDevice from its current namespace (see [Netns]). The
// index does not change. When a namespace ends, the kernel moves its devices to the initial
// one. The kernel sends no events of moves.
//
// C: rdma dev set DEV netns NETNS
func (c *Client) MoveDevice(device uint32, to *os.File) error {
	if to == nil {
		return operation{"move", numbered(device)}.failed(fmt.Errorf("no network namespace given: %w", os.ErrInvalid))
	}
	op := operation{"move", fmt.Sprintf("%s to network namespace %s", numbered(device), to.Name())}
	err := c.setDevice(op, device, Attr{abi.RDMA_NLDEV_NET_NS_FD, uint32Value(uint32(to.Fd()))})
	runtime.KeepAlive(to)
	err = hint(err, syscall.EINVAL, "no such device in this network namespace, or the file is not a network namespace")
	return hint(err, syscall.EOPNOTSUPP,
		"in shared mode all namespaces have the device: run rdma system set netns exclusive; in exclusive mode the driver must support moves, which siw and rxe don't")
}

func (c *Client) setDevice(op operation, device uint32, to Attr) error {
	_, err := c.call(op, Request{Op: abi.RDMA_NLDEV_CMD_SET, Attrs: []Attr{byIndex(device), to}})
	return err
}

// AddSubDevice creates a sub-device of the device with index parent. It needs
// CAP_NET_ADMIN, a kernel that supports sub-devices (6.12 does, 6.1 does not), and hardware
// that supports them, such as some mlx5 devices.
//
// C: rdma dev add NAME type SMI parent DEV
func (c *Client) AddSubDevice(parent uint32, name string, typ DeviceType) error {
	op := operation{"add sub-device", fmt.Sprintf("%s type %v to %s", name, typ, numbered(parent))}
	if err := checkName("name", name, maxSubDeviceName); err != nil {
		return op.failed(err)
	}
	_, err := c.call(op, Request{
		Op: abi.RDMA_NLDEV_CMD_NEWDEV,
		Attrs: []Attr{
			byIndex(parent),
			{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)},
			{abi.RDMA_NLDEV_ATTR_DEV_TYPE, []byte{uint8(typ)}},
		},
	})
	err = hint(err, syscall.EOPNOTSUPP, "this device has no sub-devices of that type")
	return hint(err, syscall.EINVAL, "no such device, or a kernel without sub-devices, such as 6.1")
}

// maxSubDeviceName is shorter than maxDeviceName, because the kernel cuts the names of
// sub-devices at IFNAMSIZ.
const maxSubDeviceName = 15

// DeleteSubDevice deletes the sub-device with this index. It needs
// CAP_NET_ADMIN. Links are deleted with [Client.DeleteLink] instead.
//
// C: rdma dev delete DEV
func (c *Client) DeleteSubDevice(device uint32) error {
	_, err := c.call(operation{"delete sub-device", numbered(device)}, Request{
		Op: abi.RDMA_NLDEV_CMD_DELDEV, Attrs: []Attr{byIndex(device)},
	})
	err = hint(err, syscall.EOPNOTSUPP, "it is not a sub-device; rdma link delete deletes siw and rxe devices")
	return hint(err, syscall.EINVAL, "no such device, or a kernel without sub-devices, such as 6.1")
}
