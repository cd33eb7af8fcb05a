package rdmatest

import (
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Why a lookup of a datagram service fails, in InfiniBand's numbers for that.
const (
	datagramRejected  = 2
	noDatagramService = 3
)

// udpQKey is what all datagram queue pairs of the manager have, as in rdma_cm.h.
const udpQKey = 0x01234567

// The private data of lookups, as of requests.
const (
	lookUpPrivate = 180
	answerPrivate = 136
)

// lookUp asks a datagram service for its queue pair.
func (m *manager) lookUp(id, l *cmID, p *abi.RdmaUcmConnParam) {
	server := m.createChild(l, id)
	ud := abi.RdmaUcmUdParam{PrivateData: p.PrivateData, PrivateDataLen: lookUpPrivate}
	resp := l.event(abi.RDMA_CM_EVENT_CONNECT_REQUEST, 0, abi.Bytes(&ud))
	resp.Id = server.handle
	l.channel.report(event{id: l, child: server, resp: resp})
}

// answer tells the one who asked.
func (m *manager) answer(id *cmID, a *abi.RdmaUcmAccept) error {
	if id.state != connReqRcvd {
		return syscall.EINVAL
	}
	id.state, id.uid, id.qpn = connIdle, a.Uid, a.ConnParam.QpNum
	client := id.peer
	ud := abi.RdmaUcmUdParam{QpNum: id.qpn, Qkey: udpQKey, PrivateData: a.ConnParam.PrivateData, PrivateDataLen: answerPrivate}
	ud.AhAttr = client.address(id.src.Addr().As16())
	m.carry(id.d, id.to, func() {
		if client.state == connReqSent {
			client.settle(connIdle)
			client.tell(abi.RDMA_CM_EVENT_ESTABLISHED, 0, abi.Bytes(&ud))
		}
	})
	return nil
}

// address is what an address handle for a GID is made of.
func (id *cmID) address(dgid [16]byte) (a abi.IbUverbsAhAttr) {
	local, _ := id.gids()
	a.Grh.Dgid, a.Grh.SgidIndex, a.Grh.HopLimit, a.IsGlobal, a.PortNum = dgid, id.d.gidIndex(local), 64, 1, 1
	if to := id.m.f.byGID(dgid); to != nil {
		a.Dlid = to.lid
	}
	return a
}

// join is a membership in a multicast group.
type join struct {
	id     *cmID
	uid    uint64
	handle uint32
	told   uint32
}

// everybody is the queue pair's number in what is sent to a group.
const everybody = 0xffffff

func (m *manager) join(id *cmID, r abi.RdmaUcmJoinMcast, out []byte) error {
	switch {
	case id.d == nil:
		return syscall.EINVAL
	case id.d.kind.isIWARP():
		return syscall.ENOSYS
	}
	m.lastID++
	j := &join{id: id, uid: r.Uid, handle: m.lastID}
	id.joins = append(id.joins, j)
	group := parseSockaddr(r.Addr).Addr()
	ud := abi.RdmaUcmUdParam{QpNum: everybody, Qkey: udpQKey, AhAttr: id.address(group.As16())}
	resp := id.event(abi.RDMA_CM_EVENT_MULTICAST_JOIN, 0, abi.Bytes(&ud))
	resp.Uid, resp.Id = j.uid, j.handle
	id.channel.report(event{id: id, join: j, resp: resp})
	copy(out, abi.Bytes(&abi.RdmaUcmCreateIdResp{Id: j.handle}))
	return nil
}

func (m *manager) leave(handle uint32, out []byte) error {
	for _, id := range m.ids {
		i := slices.IndexFunc(id.joins, func(j *join) bool { return j.handle == handle })
		if i < 0 {
			continue
		}
		j := id.joins[i]
		id.joins = slices.Delete(id.joins, i, i+1)
		id.channel.events = slices.DeleteFunc(id.channel.events, func(ev event) bool { return ev.join == j })
		copy(out, abi.Bytes(&abi.RdmaUcmDestroyIdResp{EventsReported: j.told}))
		return nil
	}
	return syscall.ENOENT
}

func (id *cmID) leaveAll() { id.joins = nil }
