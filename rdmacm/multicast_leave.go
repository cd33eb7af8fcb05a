package rdmacm

import (
	"net"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

func (m *Multicast) detach() error {
	return m.id.lendQP(func(qp queuePair) error {
		to := m.attached
		if to == nil {
			return nil
		}
		err := qp.DetachMcast(to.AH.DGID, to.AH.DLID)
		if err == nil {
			m.attached = nil
		}
		return err
	})
}

// Leave ends the membership. Datagrams on their way to the queue pair may still arrive.
// Like Destroy it waits until the events that Get has returned for the membership are
// acknowledged. A second call returns net.ErrClosed.
//
// C: rdma_leave_multicast
func (m *Multicast) Leave() error {
	if m == nil {
		return closeNil("Multicast")
	}
	const op = "leave multicast group"
	if m.setLeft(true) {
		return &OpError{Op: op, Object: m.group.String(), Err: net.ErrClosed}
	}
	err := m.detach()
	if err == nil {
		err = m.leave()
	}
	if err != nil {
		m.setLeft(false)
	}
	return commandError(op, m.group, err)
}

func (m *Multicast) leave() error {
	ch, reported, err := m.leaveKernel()
	if err != nil {
		return err
	}
	m.id.waitCount(&m.acked, reported)
	ch.forget(m)
	return nil
}

func (m *Multicast) leaveKernel() (ch *EventChannel, reported uint32, err error) {
	id := m.id
	id.joins.Lock()
	defer id.joins.Unlock()
	if id.isDestroyed() { // and the number may be another membership's
		return nil, 0, net.ErrClosed
	}
	ch = id.channel()
	r := newRequest[abi.RdmaUcmDestroyId, abi.RdmaUcmDestroyIdResp](abi.RDMA_USER_CM_CMD_LEAVE_MCAST)
	defer r.free()
	r.body.Response, r.body.Id = r.respAddr(), m.handle
	if err := ch.file.Command(r.in(), r.out()); err != nil {
		return nil, 0, closedError(err)
	}
	id.groups = slices.DeleteFunc(id.groups, func(other *Multicast) bool { return other == m })
	return ch, r.resp.EventsReported, nil
}

func (m *Multicast) setLeft(left bool) (before bool) {
	m.id.qpMu.Lock()
	defer m.id.qpMu.Unlock()
	before, m.left = m.left, left
	return before
}
