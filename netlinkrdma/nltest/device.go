package nltest

import (
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// set carries out one change: that of the attribute that the kernel checks for first.
func (k *Kernel) set(req netlinkrdma.Request) error {
	i, err := k.device(req)
	if err != nil {
		return err
	}
	switch {
	case has(req, abi.RDMA_NLDEV_ATTR_DEV_NAME):
		return k.rename(i, text(req, abi.RDMA_NLDEV_ATTR_DEV_NAME))
	case has(req, abi.RDMA_NLDEV_NET_NS_FD):
		return k.move(i)
	case has(req, abi.RDMA_NLDEV_ATTR_DEV_DIM):
		on, err := flag(req, abi.RDMA_NLDEV_ATTR_DEV_DIM)
		if err == nil {
			k.Devices[i].AdaptiveModeration = netlinkrdma.Opt[bool]{Value: on, Known: true}
		}
		return err
	}
	return nil
}

func (k *Kernel) rename(i int, name string) error {
	switch {
	case k.Devices[i].Name == name:
		return nil
	case slices.ContainsFunc(k.Devices, func(d netlinkrdma.Device) bool { return d.Name == name }):
		return syscall.EEXIST
	}
	k.Devices[i].Name = name
	k.notify(netlinkrdma.Event{Type: netlinkrdma.EventRename, DeviceIndex: k.Devices[i].Index, DeviceName: name})
	return nil
}

func (k *Kernel) move(i int) error {
	if k.System.NetnsMode != netlinkrdma.NetnsExclusive {
		return syscall.EOPNOTSUPP
	}
	k.Moved = append(k.Moved, k.Devices[i])
	k.remove(i)
	return nil
}

// newDev creates sub-devices of InfiniBand devices only.
func (k *Kernel) newDev(req netlinkrdma.Request) error {
	i, err := k.device(req)
	if err != nil {
		return err
	}
	parent := k.Devices[i]
	typ, err := byteOf(req, abi.RDMA_NLDEV_ATTR_DEV_TYPE)
	switch {
	case err != nil:
		return err
	case parent.Protocol != "ib" || typ != uint8(netlinkrdma.DeviceSMI):
		return syscall.EOPNOTSUPP
	}
	k.Devices = append(k.Devices, netlinkrdma.Device{
		Index: uint32(len(k.Requests)) + 1000, Name: text(req, abi.RDMA_NLDEV_ATTR_DEV_NAME), Ports: 1, NodeType: parent.NodeType, Protocol: parent.Protocol,
		Type: netlinkrdma.DeviceSMI, Parent: parent.Name,
	})
	return nil
}

func (k *Kernel) delDev(req netlinkrdma.Request) error {
	i, err := k.device(req)
	if err != nil {
		return err
	}
	if k.Devices[i].Parent == "" {
		return syscall.EOPNOTSUPP
	}
	k.remove(i)
	return nil
}

// remove removes a device and its ports.
func (k *Kernel) remove(i int) {
	index := k.Devices[i].Index
	k.Devices = slices.Delete(k.Devices, i, i+1)
	k.Ports = slices.DeleteFunc(k.Ports, func(p netlinkrdma.Port) bool { return p.DeviceIndex == index })
}

func (k *Kernel) sysSet(req netlinkrdma.Request) error {
	switch {
	case has(req, abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE):
		shared, err := flag(req, abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE)
		if err != nil {
			return err
		}
		k.System.NetnsMode = netlinkrdma.NetnsExclusive
		if shared {
			k.System.NetnsMode = netlinkrdma.NetnsShared
		}
		return nil
	case has(req, abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE):
		on, err := flag(req, abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE)
		if err == nil {
			k.System.PrivilegedQKey = netlinkrdma.Opt[bool]{Value: on, Known: true}
		}
		return err
	}
	return syscall.EINVAL
}

// has reports whether a request has an attribute.
func has(req netlinkrdma.Request, typ uint16) bool {
	return slices.ContainsFunc(req.Attrs, func(a netlinkrdma.Attr) bool { return a.Type == typ })
}

func byteOf(req netlinkrdma.Request, typ uint16) (uint8, error) {
	for _, a := range req.Attrs {
		if a.Type == typ && len(a.Value) == 1 {
			return a.Value[0], nil
		}
	}
	return 0, syscall.EINVAL
}

// flag returns an attribute that is 0 or 1.
func flag(req netlinkrdma.Request, typ uint16) (bool, error) {
	v, err := byteOf(req, typ)
	if err != nil || v > 1 {
		return false, syscall.EINVAL
	}
	return v == 1, nil
}
