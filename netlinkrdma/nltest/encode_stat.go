package nltest

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// EncodeSystem gives the attributes of the system settings.
func EncodeSystem(s netlinkrdma.System) []byte {
	b := putUint8(nil, abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, uint8(s.NetnsMode))
	b = putOptBool(b, abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, s.PrivilegedQKey)
	if s.Monitor {
		b = putUint8(b, abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE, 1)
	}
	return putBool(b, abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, s.CopyOnFork)
}

// EncodeCounters gives the table of counters. It has the nested flag, as in
// the kernel.
func EncodeCounters(counters []netlinkrdma.Counter) []byte {
	var table []byte
	for _, c := range counters {
		entry := putString(nil, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, c.Name)
		entry = putUint64(entry, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, c.Value)
		table = put(table, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, entry)
	}
	return put(nil, nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, table)
}

// EncodeCounterStatus gives the table of counters with whether they are on.
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

// EncodeQPCounter gives the attributes the kernel lists a QP counter with.
func EncodeQPCounter(q netlinkrdma.QPCounter) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_PORT_INDEX, q.Port)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, q.ID)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32(q.Mode))
	if q.QPType.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(q.QPType.Value))
	}
	b = putOwner(b, q.Owner)
	return append(putQPRanges(b, q.LQPN), EncodeCounters(q.Counters)...)
}

// EncodeMRCounters gives the attributes of the counters of an MR.
func EncodeMRCounters(m netlinkrdma.MRCounters) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_MRN, m.MRN)
	if m.Counters == nil {
		return b
	}
	return append(b, EncodeCounters(m.Counters)...)
}

// EncodeEvent gives the attributes of a notification.
func EncodeEvent(e netlinkrdma.Event) []byte {
	var b []byte
	if e.DeviceName != "" {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_DEV_INDEX, e.DeviceIndex)
		b = putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, e.DeviceName)
	}
	if e.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, e.Port)
	}
	if e.NetdevIndex != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_NDEV_INDEX, e.NetdevIndex)
		b = putString(b, abi.RDMA_NLDEV_ATTR_NDEV_NAME, e.NetdevName)
	}
	return putUint8(b, abi.RDMA_NLDEV_ATTR_EVENT_TYPE, uint8(e.Type))
}
