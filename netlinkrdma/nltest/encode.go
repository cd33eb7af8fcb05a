package nltest

import (
	"bytes"
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// EncodeDevice returns the attributes with which the kernel lists a device.
func EncodeDevice(d netlinkrdma.Device) []byte {
	var b []byte
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, d.Index)
	b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, d.Name)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(d.Ports))
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
	if d.Protocol == "" { // a driver with a transport of its own
		return b
	}
	return putString(b, abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL, d.Protocol)
}

// EncodePort returns the attributes with which the kernel lists a port.
func EncodePort(p netlinkrdma.Port) []byte {
	var b []byte
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, p.DeviceIndex)
	b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, p.DeviceName)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(p.Index))
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
	}
	if p.NetdevName != "" {
		b = putString(b, abi.RDMA_NLDEV_ATTR_NDEV_NAME, p.NetdevName)
	}
	return b
}

// EncodeCharDev returns the attributes of a character device.
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

// EncodeResources returns the attributes of a device's resource summary. It has no nested
// flag, as in the kernel.
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

// putUint64 appends an empty PAD attribute and the number, as the kernel does to align
// numbers.
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

// text returns a string attribute of a request, or "" if it is missing.
func text(req netlinkrdma.Request, typ uint16) string {
	for _, a := range req.Attrs {
		if a.Type == typ {
			s, _, _ := bytes.Cut(a.Value, []byte{0})
			return string(s)
		}
	}
	return ""
}

// EncodeQP returns the attributes with which the kernel lists a QP.
func EncodeQP(q netlinkrdma.QP) []byte {
	var b []byte
	if q.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(q.Port))
	}
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_LQPN, q.LQPN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, q.PDN)
	b = putOwner(b, q.Owner)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RQPN, q.RQPN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RQ_PSN, q.RQPSN)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, q.SQPSN)
	if q.PathMigState.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, uint8(q.PathMigState.Value))
	}
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(q.Type))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_STATE, uint8(q.State))
	if q.Subtype != "" {
		b = putString(b, abi.RDMA_NLDEV_ATTR_RES_SUBTYPE, q.Subtype)
	}
	return putDriver(b, q.Driver)
}

// EncodeCMID returns the attributes with which the kernel lists a CM id.
func EncodeCMID(m netlinkrdma.CMID) []byte {
	var b []byte
	if m.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(m.Port))
	}
	if m.LQPN != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_LQPN, m.LQPN)
	}
	if m.QPType.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(m.QPType.Value))
	}
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PS, uint32(m.PS))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_STATE, uint8(m.State))
	b = putAddr(b, abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR, m.Src)
	b = putAddr(b, abi.RDMA_NLDEV_ATTR_RES_DST_ADDR, m.Dst)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_CM_IDN, m.CMIDN)
	return putDriver(putOwner(b, m.Owner), m.Driver)
}

// EncodeCQ returns the attributes with which the kernel lists a CQ.
func EncodeCQ(q netlinkrdma.CQ) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_CQE, q.CQE)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_USECNT, q.Users)
	if q.PollContext.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_POLL_CTX, uint8(q.PollContext.Value))
	}
	b = putOptBool(b, abi.RDMA_NLDEV_ATTR_DEV_DIM, q.AdaptiveModeration)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_CQN, q.CQN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CTXN, q.CTXN)
	return putDriver(putOwner(b, q.Owner), q.Driver)
}

// EncodeMR returns the attributes with which the kernel lists an MR.
func EncodeMR(m netlinkrdma.MR) []byte {
	var b []byte
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RKEY, m.RKey)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_LKEY, m.LKey)
	if m.IOVA.Known {
		b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_IOVA, m.IOVA.Value)
	}
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_MRLEN, m.Length)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_MRN, m.MRN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, m.PDN)
	return putDriver(putOwner(b, m.Owner), m.Driver)
}

// EncodePD returns the attributes with which the kernel lists a PD.
func EncodePD(p netlinkrdma.PD) []byte {
	var b []byte
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, p.LocalDMALKey)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, p.UnsafeGlobalRKey)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_USECNT, p.Users)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PDN, p.PDN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CTXN, p.CTXN)
	return putDriver(putOwner(b, p.Owner), p.Driver)
}

// EncodeContext returns the attributes with which the kernel lists a context.
func EncodeContext(x netlinkrdma.Context) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_CTXN, x.CTXN)
	return putDriver(putOwner(b, x.Owner), x.Driver)
}

// EncodeSRQ returns the attributes with which the kernel lists an SRQ. Its table of QPs has
// the nested flag, as in the kernel.
func EncodeSRQ(s netlinkrdma.SRQ) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_SRQN, s.SRQN)
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(s.Type))
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, s.PDN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CQN, s.CQN)
	b = putQPRanges(b, s.LQPN)
	return putDriver(putOwner(b, s.Owner), s.Driver)
}

func putQPRanges(b []byte, ranges []netlinkrdma.QPRange) []byte {
	var table []byte
	for _, r := range ranges {
		entry := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_LQPN, r.First)
		if r.First != r.Last {
			entry = putUint32(nil, abi.RDMA_NLDEV_ATTR_MIN_RANGE, r.First)
			entry = putUint32(entry, abi.RDMA_NLDEV_ATTR_MAX_RANGE, r.Last)
		}
		table = put(table, nested|abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, entry)
	}
	return put(b, nested|abi.RDMA_NLDEV_ATTR_RES_QP, table)
}

const nested = 0x8000 // NLA_F_NESTED

func putOpt(b []byte, typ uint16, v netlinkrdma.Opt[uint32]) []byte {
	if v.Known {
		b = putUint32(b, typ, v.Value)
	}
	return b
}

func putOwner(b []byte, o netlinkrdma.Owner) []byte {
	if o.Kernel != "" {
		return putString(b, abi.RDMA_NLDEV_ATTR_RES_KERN_NAME, o.Kernel)
	}
	if o.TID != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PID, o.TID)
	}
	return b
}

// putAddr appends a sockaddr_storage. Address families are numbered as on Linux.
func putAddr(b []byte, typ uint16, a netlinkrdma.CMAddr) []byte {
	if a.Family == 0 {
		return b
	}
	storage := make([]byte, 128)
	copy(storage, a.Raw)
	binary.NativeEndian.PutUint16(storage, a.Family)
	if a.AddrPort.IsValid() {
		port, at := 2, 8
		switch a.Family {
		case 2: // AF_INET
			at = 4
		case 27: // AF_IB: the port ends the service id
			port = 30
		}
		binary.BigEndian.PutUint16(storage[port:], a.AddrPort.Port())
		copy(storage[at:], a.AddrPort.Addr().AsSlice())
	}
	return put(b, typ, storage)
}

func putDriver(b []byte, attrs []netlinkrdma.DriverAttr) []byte {
	if len(attrs) == 0 {
		return b
	}
	var table []byte
	for _, d := range attrs {
		table = putString(table, abi.RDMA_NLDEV_ATTR_DRIVER_STRING, d.Name)
		if d.Hex {
			table = putUint8(table, abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE, abi.RDMA_NLDEV_PRINT_TYPE_HEX)
		}
		switch d.Kind {
		case netlinkrdma.DriverString:
			table = putString(table, uint16(d.Kind), d.Text)
		case netlinkrdma.DriverS32, netlinkrdma.DriverU32:
			table = putUint32(table, uint16(d.Kind), uint32(d.Number))
		default: // without padding, as on amd64: iproute2's rdma stops there
			table = put(table, uint16(d.Kind), binary.NativeEndian.AppendUint64(nil, d.Number))
		}
	}
	return put(b, abi.RDMA_NLDEV_ATTR_DRIVER, table)
}

// EncodeSystem returns the attributes of the system settings.
func EncodeSystem(s netlinkrdma.System) []byte {
	b := putUint8(nil, abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, uint8(s.NetnsMode))
	b = putOptBool(b, abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, s.PrivilegedQKey)
	if s.Monitor {
		b = putUint8(b, abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1)
	}
	return putBool(b, abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, s.CopyOnFork)
}

// EncodeCounters returns a table of counters. It has the nested flag, as in the kernel.
func EncodeCounters(counters []netlinkrdma.Counter) []byte {
	var table []byte
	for _, c := range counters {
		entry := putString(nil, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, c.Name)
		entry = putUint64(entry, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, c.Value)
		table = put(table, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, entry)
	}
	return put(nil, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, table)
}

// EncodeCounterStatus returns a table of counters and whether they are enabled.
func EncodeCounterStatus(list []netlinkrdma.CounterStatus) []byte {
	var table []byte
	for _, s := range list {
		entry := putString(nil, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, s.Name)
		entry = putUint32(entry, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, s.Index)
		if s.Optional {
			entry = putBool(entry, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, s.Enabled)
		}
		table = put(table, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, entry)
	}
	return put(nil, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, table)
}

// EncodeQPCounter returns the attributes with which the kernel lists a QP counter.
func EncodeQPCounter(q netlinkrdma.QPCounter) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(q.Port))
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, uint32(q.ID))
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32(q.Mode))
	if q.QPType.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(q.QPType.Value))
	}
	b = putOwner(b, q.Owner)
	return append(putQPRanges(b, q.LQPN), EncodeCounters(q.Counters)...)
}

// EncodeMRCounters returns the attributes of the counters of an MR.
func EncodeMRCounters(m netlinkrdma.MRCounters) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_MRN, m.MRN)
	if m.Counters == nil {
		return b
	}
	return append(b, EncodeCounters(m.Counters)...)
}

// EncodeEvent returns the attributes of a notification.
func EncodeEvent(e netlinkrdma.Event) []byte {
	var b []byte
	if e.DeviceName != "" {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, e.DeviceIndex)
		b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, e.DeviceName)
	}
	if e.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(e.Port))
	}
	if e.NetdevIndex != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_NDEV_INDEX, e.NetdevIndex)
		b = putString(b, abi.RDMA_NLDEV_ATTR_NDEV_NAME, e.NetdevName)
	}
	return putUint8(b, abi.RDMA_NLDEV_ATTR_EVENT_TYPE, uint8(e.Type))
}
