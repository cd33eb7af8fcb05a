package netlinkrdma

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Device is an RDMA device as the kernel lists it.
type Device struct {
	Index        uint32 // the kernel's handle; never reused while the device lives
	Name         string // for instance siw0
	Ports        uint32 // ports are numbered from 1 to this
	CapFlags     uint64 // device capability flags (IB_DEVICE_…)
	FWVersion    string // empty when the device has no firmware
	NodeGUID     verbs.GUID
	SysImageGUID verbs.GUID
	NodeType     verbs.NodeType
	Protocol     string // ib, roce, iw, opa or usnic; empty on kernels before 4.20
	// AdaptiveModeration: whether the interrupts of the kernel's own CQs are
	// moderated as the load has it.
	AdaptiveModeration Opt[bool]
	Type               DeviceType          // DeviceOrdinary unless it is a sub-device
	Parent             string              // the device a sub-device belongs to
	NameAssign         Opt[NameAssignType] // Linux 6.1 doesn't tell
}

// Devices lists the RDMA devices the calling thread's network namespace sees,
// in the kernel's order. None is not an error.
//
// C: ibv_get_device_list, rdma dev show
func (c *Client) Devices() ([]Device, error) {
	const what = "list RDMA devices"
	replies, err := c.call(what, Request{Op: abi.RDMA_NLDEV_CMD_GET, Dump: true})
	if err != nil {
		return nil, err
	}
	devices := make([]Device, 0, len(replies))
	for _, reply := range replies {
		d, err := parseDevice(reply)
		if err != nil {
			return nil, fmt.Errorf("netlinkrdma: %s: %w", what, err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Device asks for the device with this index.
func (c *Client) Device(index uint32) (Device, error) {
	what := fmt.Sprintf("find RDMA device %d", index)
	reply, err := c.callOne(what, Request{Op: abi.RDMA_NLDEV_CMD_GET, Attrs: []Attr{byIndex(index)}})
	if err != nil {
		return Device{}, err
	}
	d, err := parseDevice(reply)
	if err != nil {
		return Device{}, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return d, nil
}

// DeviceByName finds a device by its name. When there is none the error is an
// [ErrNotFound] and lists the devices there are.
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
	if len(names) == 0 {
		return Device{}, fmt.Errorf("%w: %q (there is none at all)", ErrNotFound, name)
	}
	return Device{}, fmt.Errorf("%w: %q (there are: %s)", ErrNotFound, name, strings.Join(names, ", "))
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
			d.Ports = a.uint32()
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

// parseDeviceOrigin reads how the device came about, and its moderation.
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
