package nltest

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// PortID identifies a port.
type PortID struct {
	Device uint32
	Port   int
}

// Statistics are the counters of a port. The counters of QPs and MRs are in [Objects].
type Statistics struct {
	Counters []netlinkrdma.Counter
	Status   []netlinkrdma.CounterStatus
	Setting  netlinkrdma.CounterSetting
}

// statistics returns the port that a request selects, if it has statistics.
func (k *Kernel) statistics(req netlinkrdma.Request) (PortID, netlinkrdma.Device, error) {
	i, err := k.device(req)
	if err != nil {
		return PortID{}, netlinkrdma.Device{}, err
	}
	port := PortID{k.Devices[i].Index, int(number(req, abi.RDMA_NLDEV_ATTR_PORT_INDEX))}
	if _, ok := k.Statistics[port]; !ok {
		return PortID{}, netlinkrdma.Device{}, syscall.EINVAL
	}
	return port, k.Devices[i], nil
}

func (k *Kernel) statGet(req netlinkrdma.Request) ([][]byte, error) {
	switch number(req, abi.RDMA_NLDEV_ATTR_STAT_RES) {
	case abi.RDMA_NLDEV_ATTR_RES_MR:
		return k.objectGet(req, mrCountersKind)
	case abi.RDMA_NLDEV_ATTR_RES_QP:
		if req.Dump || has(req, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
			return k.objectGet(req, qpCounterKind)
		}
		if !has(req, abi.RDMA_NLDEV_ATTR_STAT_MODE) {
			return nil, syscall.EINVAL
		}
	}
	id, d, err := k.statistics(req)
	if err != nil {
		return nil, err
	}
	b, s := portHandle(d, id.Port), k.Statistics[id]
	if !has(req, abi.RDMA_NLDEV_ATTR_STAT_RES) {
		return [][]byte{append(b, EncodeCounters(s.Counters)...)}, nil
	}
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32(s.Setting.Mode))
	if s.Setting.Mode == netlinkrdma.CountersAuto {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, uint32(s.Setting.By))
		b = putOptBool(b, abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, s.Setting.Optional)
	}
	return [][]byte{b}, nil
}

func (k *Kernel) statStatus(req netlinkrdma.Request) ([][]byte, error) {
	id, d, err := k.statistics(req)
	if err != nil {
		return nil, err
	}
	return [][]byte{append(portHandle(d, id.Port), EncodeCounterStatus(k.Statistics[id].Status)...)}, nil
}

func (k *Kernel) statSet(req netlinkrdma.Request) ([][]byte, error) {
	id, d, err := k.statistics(req)
	if err != nil {
		return nil, err
	}
	b := portHandle(d, id.Port)
	switch {
	case !has(req, abi.RDMA_NLDEV_ATTR_STAT_MODE):
		err = k.setOptional(req, id)
	case number(req, abi.RDMA_NLDEV_ATTR_STAT_RES) != abi.RDMA_NLDEV_ATTR_RES_QP:
		err = syscall.EINVAL
	case number(req, abi.RDMA_NLDEV_ATTR_STAT_MODE) == abi.RDMA_COUNTER_MODE_AUTO:
		optional, _ := byteOf(req, abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED)
		err = k.setAuto(id, netlinkrdma.CounterMask(number(req, abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK)), optional != 0)
	default:
		var counter uint32
		counter, err = k.bind(req, id)
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter)
	}
	if err != nil {
		return nil, err
	}
	return [][]byte{b}, nil
}

// setOptional sets the optional counters from a nested table of numbers.
func (k *Kernel) setOptional(req netlinkrdma.Request, id PortID) error {
	i := slices.IndexFunc(req.Attrs, func(a netlinkrdma.Attr) bool { return a.Type == nested|abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS })
	if i < 0 || len(req.Attrs[i].Value)%8 != 0 {
		return syscall.EINVAL
	}
	on := make(map[uint32]bool)
	for entry := range slices.Chunk(req.Attrs[i].Value, 8) {
		on[binary.NativeEndian.Uint32(entry[4:])] = true
	}
	s := k.Statistics[id]
	s.Status = slices.Clone(s.Status)
	for i := range s.Status {
		if s.Status[i].Optional {
			s.Status[i].Enabled = on[s.Status[i].Index]
		} else if on[s.Status[i].Index] {
			return syscall.EINVAL
		}
	}
	k.Statistics[id] = s
	return nil
}

func (k *Kernel) setAuto(id PortID, by netlinkrdma.CounterMask, optional bool) error {
	s := k.Statistics[id]
	bound := slices.ContainsFunc(k.Objects[id.Device].QPCounter, func(q netlinkrdma.QPCounter) bool { return q.Port == id.Port })
	switch {
	case by != 0 && bound:
		return syscall.EBUSY
	case by != 0:
		s.Setting = netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: by, Optional: netlinkrdma.Opt[bool]{Value: optional, Known: true}}
	case bound:
		s.Setting = netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersManual}
	default:
		s.Setting = netlinkrdma.CounterSetting{}
	}
	k.Statistics[id] = s
	return nil
}

// portHandle returns the beginning of a reply about a port.
func portHandle(d netlinkrdma.Device, port int) []byte {
	return putUint32(handle(d), abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32(port))
}

// bind binds a QP to the counter in the request, or to a new counter.
func (k *Kernel) bind(req netlinkrdma.Request, id PortID) (uint32, error) {
	o, lqpn := k.Objects[id.Device], number(req, abi.RDMA_NLDEV_ATTR_RES_LQPN)
	if k.Statistics[id].Setting.Mode == netlinkrdma.CountersAuto {
		return 0, syscall.EINVAL
	}
	if !slices.ContainsFunc(o.QP, func(q netlinkrdma.QP) bool { return q.LQPN == lqpn }) {
		return 0, syscall.ENOENT
	}
	counter := number(req, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID)
	if !has(req, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
		counter = uint32(len(k.Requests)) + 1000
		o.QPCounter = append(o.QPCounter, netlinkrdma.QPCounter{ID: netlinkrdma.CounterID(counter), Port: id.Port, Mode: netlinkrdma.CountersManual})
	}
	i := slices.IndexFunc(o.QPCounter, func(q netlinkrdma.QPCounter) bool { return uint32(q.ID) == counter })
	if i < 0 {
		return 0, syscall.ENOENT
	}
	o.QPCounter[i].LQPN = append(o.QPCounter[i].LQPN, netlinkrdma.QPRange{First: lqpn, Last: lqpn})
	k.Objects[id.Device] = o
	k.setMode(id, netlinkrdma.CountersManual)
	return counter, nil
}

// statDel unbinds a QP from a counter, and deletes the counter with its last QP.
func (k *Kernel) statDel(req netlinkrdma.Request) ([][]byte, error) {
	id, d, err := k.statistics(req)
	if err != nil {
		return nil, err
	}
	o := k.Objects[id.Device]
	counter, lqpn := number(req, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID), number(req, abi.RDMA_NLDEV_ATTR_RES_LQPN)
	i := slices.IndexFunc(o.QPCounter, func(q netlinkrdma.QPCounter) bool {
		return uint32(q.ID) == counter && slices.Contains(q.LQPN, netlinkrdma.QPRange{First: lqpn, Last: lqpn})
	})
	if i < 0 || k.Statistics[id].Setting.Mode != netlinkrdma.CountersManual {
		return nil, syscall.EINVAL
	}
	q := &o.QPCounter[i]
	q.LQPN = slices.DeleteFunc(q.LQPN, func(r netlinkrdma.QPRange) bool { return r.First == lqpn })
	if len(q.LQPN) == 0 {
		o.QPCounter = slices.Delete(o.QPCounter, i, i+1)
	}
	if len(o.QPCounter) == 0 {
		k.setMode(id, netlinkrdma.CountersNone)
	}
	k.Objects[id.Device] = o
	b := putUint32(portHandle(d, id.Port), abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter)
	return [][]byte{putUint32(b, abi.RDMA_NLDEV_ATTR_RES_LQPN, lqpn)}, nil
}

func (k *Kernel) setMode(id PortID, mode netlinkrdma.CounterMode) {
	s := k.Statistics[id]
	s.Setting = netlinkrdma.CounterSetting{Mode: mode}
	k.Statistics[id] = s
}
