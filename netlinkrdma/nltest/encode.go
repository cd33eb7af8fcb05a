package nltest

import (
	"bytes"
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// EncodeDevice gives the attributes the kernel lists a device with.
func EncodeDevice(d netlinkrdma.Device) []byte {
	var b []byte
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, d.Index)
	b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, d.Name)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, d.Ports)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_CAP_FLAGS, d.CapFlags)
	if d.FWVersion != "" {
		b = putString(b, abi.RDMA_NLDEV_ATTR_FW_VERSION, d.FWVersion)
	}
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_NODE_GUID, uint64(d.NodeGUID))
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, uint64(d.SysImageGUID))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, uint8(d.NodeType))
	b = putOptBool(b, abi.RDMA_NLDEV_ATTR_DEV_DIM, d.AdaptiveModeration)
	if d.Type != netlinkrdma.DeviceOrdinary {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_DEV_TYPE, uint8(d.Type))
	}
	if d.Parent != "" {
		b = putString(b, abi.RDMA_NLDEV_ATTR_PARENT_NAME, d.Parent)
	}
	if d.NameAssign.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE, uint8(d.NameAssign.Value))
	}
	return putString(b, abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, d.Protocol)
}

// EncodePort gives the attributes the kernel lists a port with.
func EncodePort(p netlinkrdma.Port) []byte {
	var b []byte
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, p.DeviceIndex)
	b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, p.DeviceName)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, p.Index)
	if p.InfiniBand {
		b = putUint64(b, abi.RDMA_NLDEV_ATTR_CAP_FLAGS, p.CapFlags)
		b = putUint64(b, abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX, uint64(p.SubnetPrefix))
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_LID, p.LID)
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_SM_LID, p.SMLID)
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_LMC, p.LMC)
	}
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_PORT_STATE, uint8(p.State))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, uint8(p.PhysState))
	if p.NetdevIndex != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_NDEV_INDEX, p.NetdevIndex)
		b = putString(b, abi.RDMA_NLDEV_ATTR_NDEV_NAME, p.NetdevName)
	}
	return b
}

// EncodeCharDev gives the attributes of a character device.
func EncodeCharDev(d netlinkrdma.CharDev) []byte {
	var b []byte
	if d.DriverID != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, d.DriverID)
	}
	// huge_encode_dev
	number := uint64(d.Minor)&0xff | uint64(d.Major)<<8 | uint64(d.Minor)&^0xff<<12
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_CHARDEV, number)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, d.ABI)
	return putString(b, abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, d.Name)
}

// EncodeResources gives the attributes of a device's resource summary. The
// kernel leaves the nested flag out here.
func EncodeResources(d netlinkrdma.Device, resources []netlinkrdma.Resource) []byte {
	var b, table []byte
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, d.Index)
	b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, d.Name)
	for _, r := range resources {
		entry := putString(nil, abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, r.Kind)
		entry = putUint64(entry, abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, r.Count)
		table = put(table, abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, entry)
	}
	return put(b, abi.RDMA_NLDEV_ATTR_RES_SUMMARY, table)
}

// put appends an attribute padded to four bytes.
func put(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}

func putUint8(b []byte, typ uint16, v uint8) []byte { return put(b, typ, []byte{v}) }

func putBool(b []byte, typ uint16, v bool) []byte {
	if v {
		return putUint8(b, typ, 1)
	}
	return putUint8(b, typ, 0)
}

func putOptBool(b []byte, typ uint16, v netlinkrdma.Opt[bool]) []byte {
	if !v.Known {
		return b
	}
	return putBool(b, typ, v.Value)
}

func putUint32(b []byte, typ uint16, v uint32) []byte {
	return put(b, typ, binary.NativeEndian.AppendUint32(nil, v))
}

// putUint64 puts an empty PAD attribute before the number, as a kernel does
// where it wants the number aligned.
func putUint64(b []byte, typ uint16, v uint64) []byte {
	return put(put(b, abi.RDMA_NLDEV_ATTR_PAD, nil), typ, binary.NativeEndian.AppendUint64(nil, v))
}

func putString(b []byte, typ uint16, s string) []byte { return put(b, typ, append([]byte(s), 0)) }

func all[T any](list []T, encode func(T) []byte) [][]byte {
	replies := make([][]byte, len(list))
	for i, v := range list {
		replies[i] = encode(v)
	}
	return replies
}

// text is a string attribute of a request, empty when it is not there.
func text(req netlinkrdma.Request, typ uint16) string {
	for _, a := range req.Attrs {
		if a.Type == typ {
			s, _, _ := bytes.Cut(a.Value, []byte{0})
			return string(s)
		}
	}
	return ""
}
