package rdmatest

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Why a peer says no: of InfiniBand's numbers those that the manager uses itself.
const (
	noService = 8  // nobody listens
	byPeer    = 28 // the peer's program said so
)

// private is how long the private data of a message over RoCE is, whoever sent how much.
var private = map[uint32]uint8{
	abi.RDMA_CM_EVENT_CONNECT_REQUEST: 56, abi.RDMA_CM_EVENT_CONNECT_RESPONSE: 196, abi.RDMA_CM_EVENT_REJECTED: 148,
}

// param is what an event tells of the peer.
func (id *cmID) param(typ uint32, p abi.RdmaUcmConnParam) []byte {
	if !id.d.kind.isIWARP() {
		p.PrivateDataLen = private[typ]
	}
	return abi.Bytes(&p)
}

func (m *manager) connect(id *cmID, p *abi.RdmaUcmConnParam) error {
	if id.d == nil || id.peer != nil {
		return syscall.EINVAL
	}
	id.begun, id.qpn, id.retries, id.rnr = true, p.QpNum, p.RetryCount, p.RnrRetryCount
	m.f.after(m.f.wire.latency, func() { m.request(id, *p) })
	return nil
}

// request arrives at the listener.
func (m *manager) request(id *cmID, p abi.RdmaUcmConnParam) {
	l := m.listener(id)
	switch {
	case l == nil:
		m.f.after(m.f.wire.latency, id.refused)
		return
	case id.datagram:
		m.lookUp(id, l, &p)
		return
	}
	server := m.createChild(l, id)
	server.asked, server.retries, server.rnr = true, p.RetryCount, p.RnrRetryCount
	// The request counts for the listener.
	resp := l.event(abi.RDMA_CM_EVENT_CONNECT_REQUEST, 0, l.param(abi.RDMA_CM_EVENT_CONNECT_REQUEST, p))
	resp.Id = server.handle
	l.channel.report(event{id: l, resp: resp})
}

func (m *manager) listener(id *cmID) *cmID {
	for _, l := range m.ids {
		if l.listens && l.src == id.dst && l.datagram == id.datagram && l.d.kind == id.d.kind && l.d.carries() && id.d.carries() {
			return l
		}
	}
	return nil
}

func (m *manager) createChild(l, client *cmID) *cmID {
	server := m.create(l.channel, abi.RdmaUcmCreateId{})
	server.datagram, server.child, server.begun, server.d = l.datagram, true, true, l.d
	server.src, server.dst, server.peer, client.peer = client.dst, client.src, client, server
	return server
}

// refused tells that nobody listens.
func (id *cmID) refused() {
	switch {
	case id.datagram:
		id.tell(abi.RDMA_CM_EVENT_UNREACHABLE, noDatagramService, nil)
	case id.d.kind.isIWARP():
		id.tell(abi.RDMA_CM_EVENT_REJECTED, -int32(syscall.ECONNREFUSED), nil)
	default:
		id.tell(abi.RDMA_CM_EVENT_REJECTED, noService, id.param(abi.RDMA_CM_EVENT_REJECTED, abi.RdmaUcmConnParam{}))
	}
}

func (m *manager) accept(id *cmID, a *abi.RdmaUcmAccept) error {
	switch {
	case id.peer == nil:
		return syscall.ENOTCONN
	case id.datagram:
		return m.answer(id, a)
	case a.ConnParam.Valid == 0: // the dialling side is ready
		m.f.after(m.f.wire.latency, func() { id.other(abi.RDMA_CM_EVENT_ESTABLISHED, nil) })
		return nil
	case !id.asked:
		return syscall.EINVAL
	}
	id.uid, id.qpn, id.asked, id.stands, id.peer.stands = a.Uid, a.ConnParam.QpNum, false, true, true
	if !id.d.kind.isIWARP() {
		p := a.ConnParam
		m.f.after(m.f.wire.latency, func() {
			id.other(abi.RDMA_CM_EVENT_CONNECT_RESPONSE, id.param(abi.RDMA_CM_EVENT_CONNECT_RESPONSE, p))
		})
		return nil
	}
	if !m.f.join(id, id.peer) {
		return syscall.EINVAL
	}
	p := a.ConnParam
	m.f.after(m.f.wire.latency, func() { id.other(abi.RDMA_CM_EVENT_ESTABLISHED, abi.Bytes(&p)) })
	id.tell(abi.RDMA_CM_EVENT_ESTABLISHED, 0, nil)
	return nil
}

// other tells the peer, as long as there is one.
func (id *cmID) other(typ uint32, param []byte) {
	if id.peer != nil {
		id.peer.tell(typ, 0, param)
	}
}

// join connects two queue pairs over iWARP.
func (f *Fabric) join(a, b *cmID) bool {
	var ends [2]*pair
	for i, id := range []*cmID{a, b} {
		qp := id.d.verbs.QP(id.qpn)
		if qp == nil {
			return false
		}
		if ends[i] = f.pairOf(qp); ends[i] == nil {
			return false
		}
		ends[i].id = id
	}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	for _, p := range ends {
		p.qp.Connect()
	}
	for _, p := range ends {
		f.pump(p)
	}
	return true
}

// reject answers a request with no, unless it has been answered.
func (m *manager) reject(id *cmID, data []byte) error {
	if !id.asked {
		return syscall.EINVAL
	}
	id.asked = false
	client := id.peer
	client.peer = nil
	p := abi.RdmaUcmConnParam{PrivateDataLen: uint8(len(data))}
	copy(p.PrivateData[:], data)
	m.f.after(m.f.wire.latency, func() {
		switch {
		case id.datagram:
			client.tell(abi.RDMA_CM_EVENT_UNREACHABLE, datagramRejected, nil)
		case id.d.kind.isIWARP():
			client.tell(abi.RDMA_CM_EVENT_REJECTED, -int32(syscall.ECONNRESET), abi.Bytes(&p))
		default:
			client.tell(abi.RDMA_CM_EVENT_REJECTED, byPeer, id.param(abi.RDMA_CM_EVENT_REJECTED, p))
		}
	})
	return nil
}

// disconnect ends a connection for both. As in the kernel, it may have ended before, or never
// have stood.
func (m *manager) disconnect(id *cmID) error {
	switch {
	case !id.begun:
		return syscall.EINVAL
	case !id.stands:
		return nil
	}
	peer := id.peer
	id.stands = false
	if p := m.f.pairs[id.d.verbs.QP(id.qpn)]; p != nil && id.d.kind.isIWARP() {
		m.f.arriveAll(p)
		p.qp.Break()
		p.end(m.f)
	}
	id.tell(abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil)
	if peer != nil && peer.stands {
		peer.stands = false
		m.f.after(m.f.wire.latency, func() { peer.tell(abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil) })
	}
	return nil
}
