package rdmatest

import (
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ibcm"
)

// The reasons for a rejection that the manager uses itself, with InfiniBand's numbers.
const (
	rejectTimeout   = 4  // the side that dialled gave up
	rejectNoService = 8  // there is no listener
	rejectConsumer  = 28 // the peer's program refused
)

// connState is the state of an ID's connection, as in the kernel's cm.c. iWARP, whose states
// are those of iwcm.c, has no connRepSent, connRepRcvd, connDreqSent and connDreqRcvd.
type connState int

const (
	connIdle    connState = iota
	connReqSent           // sent a request that has not been answered
	connReqRcvd           // a child that has not answered
	connRepSent           // accepted, but not confirmed by the peer
	connRepRcvd           // accepted by the peer, but not confirmed
	connEstablished
	connDreqSent // disconnected, but not confirmed by the peer
	connDreqRcvd // disconnected by the peer, but not confirmed
	connOver     // TIMEWAIT
	connReset    // a child over iWARP whose peer gave up before it answered
)

// private has the length of the private data in each message over RoCE, which does not depend
// on the length that was sent. A program can't send more.
var private = map[uint32]uint8{
	abi.RDMA_CM_EVENT_CONNECT_REQUEST: 56, abi.RDMA_CM_EVENT_CONNECT_RESPONSE: 196, abi.RDMA_CM_EVENT_REJECTED: 148,
}

// fits reports whether a message with this event has room for the private data. Over iWARP
// the driver decides.
func (id *cmID) fits(event uint32, length int) bool {
	limit := int(private[event])
	switch {
	case id.datagram && event == abi.RDMA_CM_EVENT_CONNECT_REQUEST:
		limit = lookUpPrivate
	case id.datagram:
		limit = answerPrivate
	}
	return id.d.info.iwarp || length <= limit
}

// param returns the peer's parameters for an event. The kernel reports the limits of READs from the
// point of view of the side that receives the event: READs that the peer issues are READs that
// this side serves. MPA carries only these limits and private data, and an answer over RoCE no retry
// count.
func (id *cmID) param(typ uint32, p abi.RdmaUcmConnParam) []byte {
	p.ResponderResources, p.InitiatorDepth = p.InitiatorDepth, p.ResponderResources
	switch {
	case id.d.info.iwarp:
		p.FlowControl, p.RetryCount, p.RnrRetryCount, p.Srq, p.QpNum = 0, 0, 0, 0, 0
	case typ == abi.RDMA_CM_EVENT_CONNECT_RESPONSE:
		p.RetryCount = 0
		fallthrough
	default:
		p.PrivateDataLen = private[typ]
	}
	return abi.Bytes(&p)
}

func (m *manager) connect(id *cmID, p *abi.RdmaUcmConnParam) error {
	switch {
	case id.d == nil || id.begun || !id.routed || !id.fits(abi.RDMA_CM_EVENT_CONNECT_REQUEST, int(p.PrivateDataLen)),
		id.d.info.iwarp && id.d.verbs.QP(p.QpNum) == nil:
		return syscall.EINVAL
	case id.d.info.refusesAtOnce && m.f.isLinked(id.d, id.to) && m.listener(id) == nil:
		return syscall.ECONNREFUSED
	}
	id.begun, id.state, id.qpn, id.retries, id.rnr = true, connReqSent, p.QpNum, p.RetryCount, p.RnrRetryCount
	id.reads, id.serves = p.InitiatorDepth, p.ResponderResources
	param := *p
	if id.d.info.iwarp {
		id.limit(id.d.info.connectLimit)
		m.f.after(m.f.wire.latency, func() {
			m.stream(id.d, id.to, firstSYN, func() bool { return id.state == connReqSent }, func() { m.request(id, param) })
		})
		return nil
	}
	id.exchange(id.patience(), func() {
		m.carry(id.d, id.to, func() {
			if id.isFar() {
				id.peer.sendRequest(&param)
				return
			}
			if m.f.owner(id.src.Addr().Unmap()) == id.d && m.f.owner(id.dst.Addr().Unmap()) == id.to {
				m.request(id, param)
			}
		})
	}, id.unreachable)
	return nil
}

// request handles a connect request that arrives at the host that the ID dials.
func (m *manager) request(id *cmID, p abi.RdmaUcmConnParam) {
	if id.state != connReqSent {
		return // an answer was on its way
	}
	if child := id.peer; child != nil && m.isAlive(child) {
		switch {
		case child.state == connReqRcvd && !id.datagram: // the peer says that it needs time
			m.carry(child.d, id.d, id.postpone)
			return
		case child.state != connIdle:
			return
		}
	}
	l := m.listener(id)
	switch {
	case l == nil && id.d.info.iwarp:
		m.f.after(m.f.wire.latency, func() { id.refused(0) })
		return
	case l == nil:
		reason := int32(rejectNoService)
		if m.listensElsewhere(id) {
			reason = rejectConsumer
		}
		m.carry(id.to, id.d, func() { id.refused(reason) })
		return
	case l.isFull():
		if id.d.info.iwarp { // otherwise the request is dropped, and comes again
			m.turnAway(id, abi.RDMA_CM_EVENT_REJECTED, syscall.ECONNRESET)
		}
		return
	case id.overflows(int(p.PrivateDataLen)):
		m.turnAway(id, abi.RDMA_CM_EVENT_REJECTED, syscall.ECONNRESET)
		return
	case id.datagram:
		m.lookUp(id, l, &p)
		return
	case id.d.info.iwarp:
		id.limit(id.d.info.answerLimit)
	}
	server := m.createChild(l, id)
	server.retries, server.rnr = p.RetryCount, p.RnrRetryCount
	server.reads, server.serves = p.ResponderResources, p.InitiatorDepth
	// The request counts for the listener.
	resp := l.event(abi.RDMA_CM_EVENT_CONNECT_REQUEST, 0, l.param(abi.RDMA_CM_EVENT_CONNECT_REQUEST, p))
	resp.Id = server.handle
	l.channel.report(event{id: l, child: server, resp: resp})
}

func (m *manager) listener(id *cmID) *cmID {
	l := m.bound[binding{id.dst, id.datagram}]
	if l == nil || !l.listens || !l.d.meets(id.d) || l.d.removed {
		return nil
	}
	return l
}

// listensElsewhere reports whether the host that the ID dials listens on the port, but on another address.
func (m *manager) listensElsewhere(id *cmID) bool {
	for at, l := range m.bound {
		if at.addr.Port() == id.dst.Port() && at.datagram == id.datagram && l.listens && l.d == id.to {
			return true
		}
	}
	return false
}

// overflows reports whether a message over iWARP has more private data than its receiver takes.
func (id *cmID) overflows(length int) bool {
	return id.d.info.privateLimit > 0 && length > id.d.info.privateLimit
}

// turnAway ends an attempt of the ID over iWARP with an event and an error.
func (m *manager) turnAway(id *cmID, event uint32, why syscall.Errno) {
	m.f.after(m.f.wire.latency, func() {
		m.stream(id.to, id.d, retransmission, func() bool { return id.state == connReqSent }, func() {
			id.settle(connIdle)
			id.report(event, -int32(why), nil)
		})
	})
}

func (m *manager) createChild(l, client *cmID) *cmID {
	server := m.create(l.channel, abi.RdmaUcmCreateId{})
	server.datagram, server.child, server.begun, server.d, server.to = l.datagram, true, true, l.d, client.d
	server.src, server.dst, server.peer, client.peer = client.dst, client.src, client, server
	server.state, server.class, server.timeout = connReqRcvd, client.class, ackTimeout(client.d.verbs.AckDelay(), client.lifetime())
	return server
}

// refused handles the rejection of a request without a listener.
func (id *cmID) refused(reason int32) {
	switch {
	case id.far != nil:
		id.sendRejection(reason, noDatagramService, nil)
		return
	case id.state != connReqSent:
		return
	}
	id.settle(connIdle)
	switch {
	case id.datagram:
		id.notFound(noDatagramService, abi.RdmaUcmConnParam{})
	case id.d.info.iwarp:
		id.report(abi.RDMA_CM_EVENT_REJECTED, -int32(syscall.ECONNREFUSED), nil)
	default:
		id.report(abi.RDMA_CM_EVENT_REJECTED, reason, id.param(abi.RDMA_CM_EVENT_REJECTED, abi.RdmaUcmConnParam{}))
	}
}

// unreachable ends an attempt that was not answered.
func (id *cmID) unreachable() {
	id.hangUp()
	id.settle(connIdle)
	id.report(abi.RDMA_CM_EVENT_UNREACHABLE, -int32(syscall.ETIMEDOUT), nil)
}

func (m *manager) accept(id *cmID, a *abi.RdmaUcmAccept) error {
	switch {
	case id.d == nil || !id.begun:
		return syscall.EINVAL
	case a.ConnParam.Valid != 0 && !id.fits(abi.RDMA_CM_EVENT_CONNECT_RESPONSE, int(a.ConnParam.PrivateDataLen)):
		m.refuse(id, rejectConsumer, nil)
		return syscall.EINVAL
	case id.datagram:
		return m.answer(id, a)
	case id.d.info.iwarp:
		return m.acceptStream(id, a)
	case a.ConnParam.Valid == 0 && id.state == connRepRcvd: // the side that dialled is ready
		id.settle(connEstablished)
		id.confirm()
		return nil
	case a.ConnParam.Valid == 0 || id.state != connReqRcvd:
		m.refuse(id, rejectConsumer, nil) // as rdma_accept does when it fails
		return syscall.EINVAL
	}
	id.uid, id.qpn, id.state = a.Uid, a.ConnParam.QpNum, connRepSent
	p, client := a.ConnParam, id.peer
	id.reads, id.serves = p.InitiatorDepth, p.ResponderResources
	id.exchange(answerWait, func() { m.carry(id.d, id.to, func() { client.accepted(p) }) }, id.unreachable)
	return nil
}

// accepted handles an accepting answer. If the answer was received before, the peer has
// missed this side's confirmation, so that is sent again.
func (id *cmID) accepted(p abi.RdmaUcmConnParam) {
	server := id.peer
	switch {
	case id.far != nil:
		id.sendAcceptance(&p)
	case !id.m.isAlive(id):
	case id.state == connReqSent:
		id.settle(connRepRcvd)
		id.reads, id.serves = p.ResponderResources, p.InitiatorDepth
		id.report(abi.RDMA_CM_EVENT_CONNECT_RESPONSE, 0, id.param(abi.RDMA_CM_EVENT_CONNECT_RESPONSE, p))
	case id.state == connRepRcvd: // it says that it needs time
		id.m.carry(id.d, id.to, server.postpone)
	case id.state == connEstablished:
		id.confirm()
	}
}

// confirm sends the third message of a handshake, which is not answered.
func (id *cmID) confirm() {
	id.m.carry(id.d, id.to, id.peer.confirmed)
}

// confirmed handles the third message of a handshake.
func (id *cmID) confirmed() {
	switch {
	case id.far != nil:
		id.mail(&ibcm.Message{Kind: ibcm.RTU})
	case id.m.isAlive(id) && id.state == connRepSent:
		id.settle(connEstablished)
		id.report(abi.RDMA_CM_EVENT_ESTABLISHED, 0, nil)
	}
}

// acceptStream answers over iWARP. The answer is TCP data, so this side is connected at once.
func (m *manager) acceptStream(id *cmID, a *abi.RdmaUcmAccept) error {
	switch {
	case id.state == connReset:
		id.state = connIdle
		return syscall.ECONNRESET
	case id.state != connReqRcvd || a.ConnParam.Valid == 0:
		return syscall.EINVAL
	case id.overflows(int(a.ConnParam.PrivateDataLen)):
		id.settle(connIdle)
		m.turnAway(id.peer, abi.RDMA_CM_EVENT_REJECTED, syscall.ECONNRESET)
		return syscall.EINVAL
	}
	client, p := id.peer, a.ConnParam
	id.uid, id.qpn = a.Uid, p.QpNum
	// Over iWARP, the driver serves at least what the peer asks for, and asks for no more than the peer serves.
	p.ResponderResources, p.InitiatorDepth = max(p.ResponderResources, id.serves), min(p.InitiatorDepth, id.reads)
	id.reads, id.serves = p.InitiatorDepth, p.ResponderResources
	client.reads, client.serves = id.serves, id.reads
	if !m.f.join(id, client) {
		return syscall.EINVAL
	}
	id.state = connEstablished
	m.f.after(m.f.wire.latency, func() {
		m.stream(id.d, id.to, retransmission, func() bool { return client.state == connReqSent }, func() {
			client.settle(connEstablished)
			p.ResponderResources, p.InitiatorDepth = id.reads, id.serves
			client.report(abi.RDMA_CM_EVENT_ESTABLISHED, 0, client.param(abi.RDMA_CM_EVENT_ESTABLISHED, p))
		})
	})
	id.report(abi.RDMA_CM_EVENT_ESTABLISHED, 0, abi.Bytes(&abi.RdmaUcmConnParam{ResponderResources: id.reads, InitiatorDepth: id.serves}))
	return nil
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
		p.qp.Connect(p.id.reads, p.id.serves)
	}
	for _, p := range ends {
		f.pump(p)
	}
	return true
}

// reject rejects a request, unless it has been answered.
func (m *manager) reject(id *cmID, data []byte) error {
	switch {
	case id.d == nil || !id.begun:
		return syscall.EINVAL
	case id.d.info.iwarp && id.state == connReset:
		id.state = connIdle
		return syscall.ECONNRESET
	case !id.fits(abi.RDMA_CM_EVENT_REJECTED, len(data)):
		return syscall.EINVAL
	}
	if !m.refuse(id, rejectConsumer, data) {
		return syscall.EINVAL
	}
	return nil
}

// refuse sends a rejection if the state has one, and reports whether it has.
func (m *manager) refuse(id *cmID, reason int32, data []byte) bool {
	asked := id.state == connReqRcvd
	if over := id.d.info.iwarp || id.datagram; over && !asked {
		return false
	}
	switch id.state {
	case connReqSent, connReqRcvd, connRepRcvd:
		id.settle(connIdle)
	case connRepSent:
		id.settle(connOver)
	default:
		return false
	}
	peer := id.peer
	if peer == nil {
		return true
	}
	p := abi.RdmaUcmConnParam{PrivateDataLen: uint8(len(data))}
	copy(p.PrivateData[:], data)
	if id.overflows(len(data)) {
		m.turnAway(peer, abi.RDMA_CM_EVENT_CONNECT_ERROR, syscall.EINVAL)
		return true
	}
	if id.d.info.iwarp {
		m.f.after(m.f.wire.latency, func() {
			m.stream(id.d, id.to, retransmission, func() bool { return peer.state == connReqSent }, func() {
				peer.settle(connIdle)
				peer.report(abi.RDMA_CM_EVENT_REJECTED, -int32(syscall.ECONNRESET), abi.Bytes(&p))
			})
		})
		return true
	}
	m.carry(id.d, id.to, func() { peer.rejected(reason, p) })
	return true
}

// rejected handles a rejection.
func (id *cmID) rejected(reason int32, p abi.RdmaUcmConnParam) {
	switch {
	case id.far != nil:
		id.sendRejection(reason, datagramRejected, p.PrivateData[:p.PrivateDataLen])
		return
	case !id.m.isAlive(id):
		return
	}
	switch id.state {
	case connReqSent, connReqRcvd, connRepSent:
		id.settle(connIdle)
	case connRepRcvd, connEstablished, connDreqSent:
		id.settle(connOver)
	default:
		return
	}
	if id.datagram {
		id.notFound(datagramRejected, p)
		return
	}
	id.report(abi.RDMA_CM_EVENT_REJECTED, reason, id.param(abi.RDMA_CM_EVENT_REJECTED, p))
}

// disconnect ends a connection for both sides. As in the kernel, the connection may have
// ended before, or may never have been established.
func (m *manager) disconnect(id *cmID) error {
	switch {
	case !id.begun && (!id.listens || id.d.info.iwarp):
		return syscall.EINVAL
	case id.state == connDreqRcvd:
		m.confirmEnd(id)
		return nil
	case id.state != connEstablished:
		return nil
	case id.d.info.iwarp:
		id.hangUp()
		m.ended(id)
		return nil
	}
	id.state = connDreqSent
	peer := id.peer
	id.exchange(id.patience(), func() { m.carry(id.d, id.to, func() { m.parted(peer, id) }) }, func() {
		id.settle(connOver)
		id.report(abi.RDMA_CM_EVENT_DISCONNECTED, -int32(syscall.ETIMEDOUT), nil)
	})
	return nil
}

// parted handles a disconnect request. The kernel confirms requests for connections that it
// does not know. The program must confirm the others.
func (m *manager) parted(id, from *cmID) {
	if id.far != nil {
		id.mail(&ibcm.Message{Kind: ibcm.DREQ, QPN: id.qpn})
		return
	}
	if !m.isAlive(id) || id.state == connOver || id.state == connIdle {
		m.carry(from.to, from.d, from.partedToo)
		return
	}
	switch id.state {
	case connRepSent, connEstablished, connDreqSent:
		id.settle(connDreqRcvd)
		id.report(abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil)
	}
}

func (m *manager) confirmEnd(id *cmID) {
	id.settle(connOver)
	m.carry(id.d, id.to, id.peer.partedToo)
}

// partedToo handles the confirmation of a disconnect request.
func (id *cmID) partedToo() {
	if id.far != nil {
		id.mail(&ibcm.Message{Kind: ibcm.DREP})
		return
	}
	if !id.m.isAlive(id) || id.state != connDreqSent && id.state != connDreqRcvd {
		return
	}
	reported := id.state == connDreqRcvd
	id.settle(connOver)
	if !reported {
		id.report(abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil)
	}
}

// pair returns the queue pair of the connection, or nil.
func (id *cmID) pair() *pair {
	if p := id.m.f.pairs[id.d.verbs.QP(id.qpn)]; p != nil && p.id == id {
		return p
	}
	return nil
}

// hangUp closes the TCP connection of an ID over iWARP after the data that it has sent.
func (id *cmID) hangUp() {
	f := id.m.f
	if !id.begun || !id.d.info.iwarp {
		return
	}
	if p := id.pair(); p != nil {
		p.sendRest(f)
		p.qp.CloseConn()
		p.end(f)
	}
	if server := id.peer; !id.child && server != nil && server.state == connReqRcvd {
		id.m.stream(id.d, id.to, retransmission, func() bool { return server.state == connReqRcvd }, func() { server.state = connReset })
	}
}

// finish ends the exchange that the ID has begun, without waiting for an answer. Destroying an ID
// does that.
func (m *manager) finish(id *cmID) {
	if !id.begun {
		return
	}
	switch id.state {
	case connReqSent:
		if id.datagram || id.d.info.iwarp {
			id.hangUp()
			break
		}
		m.refuse(id, rejectTimeout, nil)
	case connReqRcvd, connRepSent, connRepRcvd:
		m.refuse(id, rejectConsumer, nil)
	default:
		p := id.pair()
		_ = m.disconnect(id)
		if p != nil && id.d.info.iwarp { // C: iwcm_modify_qp_err
			p.qp.Break()
		}
	}
	id.settle(connIdle)
}

// The reasons why a lookup of a datagram service fails, with InfiniBand's numbers.
const (
	noDatagramService = 1
	datagramRejected  = 2
)

// notFound reports that a lookup failed.
func (id *cmID) notFound(status int32, p abi.RdmaUcmConnParam) {
	ud := abi.RdmaUcmUdParam{PrivateData: p.PrivateData, PrivateDataLen: answerPrivate}
	id.report(abi.RDMA_CM_EVENT_UNREACHABLE, status, abi.Bytes(&ud))
}

// udpQKey is the Q_Key of all datagram queue pairs of the manager, as in rdma_cm.h.
const udpQKey = 0x01234567

// The lengths of the private data in lookups and in their answers.
const (
	lookUpPrivate = 180
	answerPrivate = 136
)

// lookUp queries a datagram service for its queue pair.
func (m *manager) lookUp(id, l *cmID, p *abi.RdmaUcmConnParam) {
	server := m.createChild(l, id)
	ud := abi.RdmaUcmUdParam{PrivateData: p.PrivateData, PrivateDataLen: lookUpPrivate}
	resp := l.event(abi.RDMA_CM_EVENT_CONNECT_REQUEST, 0, abi.Bytes(&ud))
	resp.Id = server.handle
	l.channel.report(event{id: l, child: server, resp: resp})
}

// answer reports the answer to the client.
func (m *manager) answer(id *cmID, a *abi.RdmaUcmAccept) error {
	if id.state != connReqRcvd {
		return syscall.EINVAL
	}
	id.state, id.uid, id.qpn = connIdle, a.Uid, a.ConnParam.QpNum
	client := id.peer
	ud := abi.RdmaUcmUdParam{QpNum: id.qpn, Qkey: udpQKey, PrivateData: a.ConnParam.PrivateData, PrivateDataLen: answerPrivate}
	ud.AhAttr = client.address(id.src.Addr().As16())
	m.carry(id.d, id.to, func() { client.found(&ud) })
	return nil
}

// found handles the answer to a lookup.
func (id *cmID) found(ud *abi.RdmaUcmUdParam) {
	switch {
	case id.far != nil:
		id.mail(&ibcm.Message{Kind: ibcm.SIDRREP, Space: ibcm.SpaceUDP, Port: id.dst.Port(), QPN: ud.QpNum, QKey: ud.Qkey, Private: ud.PrivateData[:answerPrivate]})
	case id.state == connReqSent:
		id.settle(connIdle)
		id.report(abi.RDMA_CM_EVENT_ESTABLISHED, 0, abi.Bytes(ud))
	}
}

// address returns the attributes of an address handle for a GID.
func (id *cmID) address(dgid [16]byte) (a abi.IbUverbsAhAttr) {
	local, _ := id.gids()
	a.Grh.Dgid, a.Grh.SgidIndex, a.Grh.TrafficClass, a.Grh.HopLimit, a.IsGlobal, a.PortNum = dgid, id.d.gidIndex(local), id.class, 64, 1, 1
	if to := id.m.f.byGID(dgid); to != nil {
		a.Dlid = to.base()
	}
	return a
}

// join is a membership in a multicast group.
type join struct {
	id       *cmID
	uid      uint64
	handle   uint32
	reported uint32
	group    [16]byte
	sendOnly bool
}

// everybody is the queue pair number of messages to a group.
const everybody = 0xffffff

func (m *manager) join(id *cmID, r abi.RdmaUcmJoinMcast, out []byte) error {
	switch {
	case id.d == nil:
		return syscall.EINVAL
	case id.d.info.iwarp:
		return syscall.ENOSYS
	}
	m.lastID++
	j := &join{id: id, uid: r.Uid, handle: m.lastID, group: parseSockaddr(r.Addr).Addr().As16(), sendOnly: r.JoinFlags&abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER != 0}
	if !j.sendOnly && !m.hasJoined(id.d, j.group) {
		if err := m.joinOutside(id.d, j.group, true); err != nil {
			return err
		}
	}
	id.joins = append(id.joins, j)
	ud := abi.RdmaUcmUdParam{QpNum: everybody, Qkey: udpQKey, AhAttr: id.address(j.group)}
	if id.d.verbs.IsRoCE() {
		ud.AhAttr.Grh.HopLimit, ud.AhAttr.Grh.TrafficClass = 1, 0 // C: cma_iboe_join_multicast
	}
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
		m.leaveOutside(j)
		id.channel.events = slices.DeleteFunc(id.channel.events, func(ev event) bool { return ev.join == j })
		copy(out, abi.Bytes(&abi.RdmaUcmDestroyIdResp{EventsReported: j.reported}))
		return nil
	}
	return syscall.ENOENT
}

// hasJoined reports whether somebody who wants to receive has joined a group on a device's network device.
func (m *manager) hasJoined(d *Device, group [16]byte) bool {
	for _, id := range m.ids {
		if id.d == d && slices.ContainsFunc(id.joins, func(j *join) bool { return j.group == group && !j.sendOnly }) {
			return true
		}
	}
	return false
}
