// Package nltest is a fake of the kernel's side of NETLINK_RDMA. With it, programs that list
// or change devices can be tested without privileges, without a kernel that has RDMA, and
// for every errno.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//
//		"github.com/goverbs/goverbs/netlinkrdma"
//		"github.com/goverbs/goverbs/netlinkrdma/nltest"
//	)
//
//	func main() {
//		kernel := &nltest.Kernel{Devices: []netlinkrdma.Device{{Index: 7, Name: "mlx5_0"}}}
//		c := netlinkrdma.Client{Kernel: kernel}
//		devices, err := c.Devices()
//		fmt.Println(len(devices), err)
//	}
package nltest

import (
	"encoding/binary"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// Kernel answers requests from its lists, and changes them on request. Its methods may be called
// concurrently. A program must not access the fields while another goroutine may call a method.
//
// As on Linux, adding a link sends EventRegister and EventNetdevAttach to the subscribers,
// deleting it EventUnregister, and a new name EventRename.
type Kernel struct {
	Devices  []netlinkrdma.Device
	Ports    []netlinkrdma.Port             // with the names of their Devices
	CharDevs map[uint32]netlinkrdma.CharDev // by device index; answers for all kinds but rdma_cm
	CM       netlinkrdma.CharDev
	// Resources are the same for every device. If they are nil, the kernel counts Objects.
	Resources []netlinkrdma.Resource
	// Objects has the objects of each device, by device index.
	Objects map[uint32]Objects
	// Statistics has the counters of each port.
	Statistics map[PortID]Statistics
	// System has the settings. With its zero value the kernel sends no events, as Linux 6.1, and
	// Client.Subscribe fails. Set Monitor to test a program that subscribes.
	System netlinkrdma.System
	// Moved are the devices that were moved to another network namespace.
	Moved []netlinkrdma.Device
	// Netdevs are the network devices to which a link can be added.
	Netdevs []string
	// Types are the link types whose driver is loaded or can be loaded.
	Types []string
	// FRMRAging has the aging periods of FRMR pools that were set, in seconds, by device.
	FRMRAging map[uint32]uint32
	// Fail makes an operation (RDMA_NLDEV_CMD_…) fail with this error.
	Fail map[uint16]error
	// Requests are the requests so far, oldest first.
	Requests []netlinkrdma.Request

	mu            sync.Mutex // guards all fields during calls
	subscriptions []*subscription
}

var _ netlinkrdma.Kernel = (*Kernel)(nil)

// Execute answers one request.
func (k *Kernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Requests = append(k.Requests, req)
	if err := k.Fail[req.Op]; err != nil {
		return nil, err
	}
	switch req.Op {
	case abi.RDMA_NLDEV_CMD_GET:
		return k.get(req)
	case abi.RDMA_NLDEV_CMD_SET:
		return nil, k.set(req)
	case abi.RDMA_NLDEV_CMD_NEWDEV:
		return nil, k.newDev(req)
	case abi.RDMA_NLDEV_CMD_DELDEV:
		return nil, k.delDev(req)
	case abi.RDMA_NLDEV_CMD_SYS_GET:
		return [][]byte{EncodeSystem(k.System)}, nil
	case abi.RDMA_NLDEV_CMD_SYS_SET:
		return nil, k.sysSet(req)
	case abi.RDMA_NLDEV_CMD_STAT_GET:
		return k.statGet(req)
	case abi.RDMA_NLDEV_CMD_STAT_SET:
		return k.statSet(req)
	case abi.RDMA_NLDEV_CMD_STAT_DEL:
		return k.statDel(req)
	case abi.RDMA_NLDEV_CMD_STAT_GET_STATUS:
		return k.statStatus(req)
	case abi.RDMA_NLDEV_CMD_PORT_GET:
		return k.portGet(req)
	case abi.RDMA_NLDEV_CMD_NEWLINK:
		return nil, k.newLink(req)
	case abi.RDMA_NLDEV_CMD_DELLINK:
		return nil, k.delLink(req)
	case abi.RDMA_NLDEV_CMD_GET_CHARDEV:
		return k.charDev(req)
	case abi.RDMA_NLDEV_CMD_RES_GET:
		return k.resGet(req)
	case abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET:
		return k.frmrGet(req)
	case abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET:
		return nil, k.frmrSet(req)
	}
	if kind, ok := objectKinds[req.Op]; ok {
		return k.objectGet(req, kind)
	}
	return nil, syscall.EINVAL
}

func (k *Kernel) get(req netlinkrdma.Request) ([][]byte, error) {
	if req.Dump {
		return all(k.Devices, EncodeDevice), nil
	}
	i, err := k.device(req)
	if err != nil {
		return nil, err
	}
	return [][]byte{EncodeDevice(k.Devices[i])}, nil
}

func (k *Kernel) portGet(req netlinkrdma.Request) ([][]byte, error) {
	i, err := k.device(req)
	if err != nil {
		return nil, err
	}
	port := number(req, abi.RDMA_NLDEV_ATTR_PORT_INDEX)
	ports := slices.DeleteFunc(slices.Clone(k.Ports), func(p netlinkrdma.Port) bool {
		return p.DeviceIndex != k.Devices[i].Index || !req.Dump && uint32(p.Index) != port
	})
	if !req.Dump && len(ports) == 0 {
		return nil, syscall.EINVAL
	}
	for p := range ports {
		ports[p].DeviceName = k.Devices[i].Name
	}
	return all(ports, EncodePort), nil
}

// newLink makes its checks in the kernel's order.
func (k *Kernel) newLink(req netlinkrdma.Request) error {
	name := text(req, abi.RDMA_NLDEV_ATTR_DEV_NAME)
	netdev := text(req, abi.RDMA_NLDEV_ATTR_NDEV_NAME)
	if !slices.Contains(k.Netdevs, netdev) {
		return syscall.ENODEV
	}
	if !slices.Contains(k.Types, text(req, abi.RDMA_NLDEV_ATTR_LINK_TYPE)) {
		return syscall.EINVAL
	}
	if slices.ContainsFunc(k.Ports, func(p netlinkrdma.Port) bool { return p.NetdevName == netdev }) {
		return syscall.EEXIST
	}
	if slices.ContainsFunc(k.Devices, func(d netlinkrdma.Device) bool { return d.Name == name }) {
		return syscall.ENFILE
	}
	index := uint32(len(k.Requests))
	k.Devices = append(k.Devices, netlinkrdma.Device{
		Index: index, Name: name, Ports: 1, NodeType: verbs.NodeRNIC, Protocol: "iw",
	})
	k.Ports = append(k.Ports, netlinkrdma.Port{
		DeviceIndex: index, DeviceName: name, Index: 1, State: verbs.PortActive,
		PhysState: verbs.PhysLinkUp, NetdevIndex: 1, NetdevName: netdev,
	})
	k.notify(netlinkrdma.Event{Type: netlinkrdma.EventRegister, DeviceIndex: index, DeviceName: name})
	k.notify(netlinkrdma.Event{Type: netlinkrdma.EventNetdevAttach, DeviceIndex: index, DeviceName: name, Port: 1,
		NetdevIndex: 1, NetdevName: netdev})
	return nil
}

func (k *Kernel) delLink(req netlinkrdma.Request) error {
	i, err := k.device(req)
	if err != nil {
		return err
	}
	k.notify(netlinkrdma.Event{Type: netlinkrdma.EventUnregister, DeviceIndex: k.Devices[i].Index, DeviceName: k.Devices[i].Name})
	k.remove(i)
	return nil
}

func (k *Kernel) charDev(req netlinkrdma.Request) ([][]byte, error) {
	if text(req, abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE) == "rdma_cm" {
		return [][]byte{EncodeCharDev(k.CM)}, nil
	}
	i, err := k.device(req)
	if err != nil {
		return nil, err
	}
	d, ok := k.CharDevs[k.Devices[i].Index]
	if !ok {
		return nil, syscall.EOPNOTSUPP
	}
	return [][]byte{EncodeCharDev(d)}, nil
}

func (k *Kernel) resGet(req netlinkrdma.Request) ([][]byte, error) {
	i, err := k.device(req)
	if err != nil {
		return nil, err
	}
	d, resources := k.Devices[i], k.Resources
	if resources == nil {
		resources = k.Objects[d.Index].count()
	}
	return [][]byte{EncodeResources(d, resources)}, nil
}

// device returns the position of the device that a request selects. Like the kernel, it
// returns EINVAL, not ENODEV, for an unknown device.
func (k *Kernel) device(req netlinkrdma.Request) (int, error) {
	for _, a := range req.Attrs {
		if a.Type == abi.RDMA_NLDEV_ATTR_DEV_INDEX && len(a.Value) == 4 {
			index := binary.NativeEndian.Uint32(a.Value)
			for i, d := range k.Devices {
				if d.Index == index {
					return i, nil
				}
			}
		}
	}
	return 0, syscall.EINVAL
}
