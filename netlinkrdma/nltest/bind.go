package nltest

import (
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// bind binds a QP to the counter that the request names, or to a new one.
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
		o.QPCounter = append(o.QPCounter, netlinkrdma.QPCounter{ID: counter, Port: id.Port, Mode: netlinkrdma.CountersManual})
	}
	i := slices.IndexFunc(o.QPCounter, func(q netlinkrdma.QPCounter) bool { return q.ID == counter })
	if i < 0 {
		return 0, syscall.ENOENT
	}
	o.QPCounter[i].LQPN = append(o.QPCounter[i].LQPN, netlinkrdma.QPRange{First: lqpn, Last: lqpn})
	k.Objects[id.Device] = o
	k.setMode(id, netlinkrdma.CountersManual)
	return counter, nil
}

// statDel takes a QP off a counter, which goes with its last one.
func (k *Kernel) statDel(req netlinkrdma.Request) ([][]byte, error) {
	id, d, err := k.statistics(req)
	if err != nil {
		return nil, err
	}
	o := k.Objects[id.Device]
	counter, lqpn := number(req, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID), number(req, abi.RDMA_NLDEV_ATTR_RES_LQPN)
	i := slices.IndexFunc(o.QPCounter, func(q netlinkrdma.QPCounter) bool {
		return q.ID == counter && slices.Contains(q.LQPN, netlinkrdma.QPRange{First: lqpn, Last: lqpn})
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
