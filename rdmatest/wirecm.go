package rdmatest

import (
	"net/netip"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ibcm"
	"github.com/goverbs/goverbs/internal/roce"
)

// farEnd makes an ID stand for a peer in the network outside. What the manager does to that ID is a message to the peer. The
// ID is the peer of one of the fabric's IDs and has its device. Its source address is the peer's.
type farEnd struct {
	own, theirs uint32 // the numbers of the connection; theirs is 0 until the peer's is known
	tid         uint64
	psn         uint32 // of the first packet to the peer
	mtu         uint8
	delay       uint8 // of the peer's acknowledgements
}

// farKey names a peer outside that asked for a connection, or for a datagram service.
type farKey struct {
	addr     netip.Addr
	number   uint32
	datagram bool
}

// isFar reports whether the ID's peer is outside.
func (id *cmID) isFar() bool { return id.peer != nil && id.peer.far != nil }

// pathMTU returns the path MTU of a connection.
func (id *cmID) pathMTU() uint32 {
	if id.isFar() {
		return uint32(id.peer.far.mtu)
	}
	return wireMTU
}

// wireMTU is the path MTU of the connections that the manager asks for, 1024 bytes.
const wireMTU = 3

// meetOutside makes the ID's destination outside its peer.
func (m *manager) meetOutside(id *cmID) *Device {
	own := id.handle ^ m.secret
	id.peer = &cmID{m: m, d: id.d, to: id.d, src: id.dst, dst: id.src, datagram: id.datagram, peer: id,
		far: &farEnd{own: own, tid: uint64(own), mtu: wireMTU}}
	return id.d
}

// forgetOutside forgets the request that the ID answered.
func (m *manager) forgetOutside(id *cmID) {
	if !id.isFar() || id.peer.peer != id {
		return
	}
	if key := id.peer.key(); m.far[key] == id.peer {
		delete(m.far, key)
	}
}

func (id *cmID) key() farKey {
	return farKey{id.src.Addr(), id.far.theirs, id.datagram}
}

// mail sends a message to the peer that the ID stands for.
func (id *cmID) mail(msg *ibcm.Message) {
	msg.TID, msg.LocalID, msg.RemoteID = id.far.tid, id.far.own, id.far.theirs
	r := roce.Route{Src: id.dst.Addr().Unmap(), Dst: id.src.Addr().Unmap(), SrcPort: roce.Port, TrafficClass: id.class, HopLimit: 64}
	p := roce.Packet{Opcode: roce.ServiceUD<<5 | roce.SendOnly, DestQPN: ibcm.QP, SrcQPN: ibcm.QP, QKey: ibcm.QKey, Payload: msg.Marshal()}
	id.m.f.uplink(seal(r, &p))
}

// joinOutside makes a device a member of a group in the network outside, or ends that.
func (m *manager) joinOutside(d *Device, group [16]byte, member bool) error {
	a := netip.AddrFrom16(group).Unmap()
	if m.f.joining == nil || !d.onWire() || !a.IsMulticast() {
		return nil
	}
	return m.f.joining(d.addrLike(a), a, member)
}

// leaveOutside ends the membership in the network outside, if it was the last one of its device in the group.
func (m *manager) leaveOutside(j *join) {
	if d := j.id.d; !j.sendOnly && !m.hasJoined(d, j.group) {
		_ = m.joinOutside(d, j.group, false) // leaving can't fail
	}
}

// ping asks the host outside whether it is there, with a DREQ of no connection. Any connection manager confirms it with a
// DREP. C: cm_issue_drep
func (id *cmID) ping() { id.mail(&ibcm.Message{Kind: ibcm.DREQ}) }

// pinged returns the ID whose ping a message answers, or nil.
func (m *manager) pinged(route roce.Route, msg *ibcm.Message) *cmID {
	id := m.ids[msg.RemoteID^m.secret]
	if msg.Kind != ibcm.DREP || id == nil || !id.isFar() || id.resolved || id.begun || !id.isBetween(route) {
		return nil
	}
	return id
}

// isBetween reports whether a packet with this route came from the ID's destination to its source address.
func (id *cmID) isBetween(route roce.Route) bool {
	return id.src.Addr().Unmap() == route.Dst && id.dst.Addr().Unmap() == route.Src
}

// sendRequest asks the peer for a connection, or for its datagram service.
func (id *cmID) sendRequest(p *abi.RdmaUcmConnParam) {
	msg := ibcm.Message{Kind: ibcm.REQ, Space: ibcm.SpaceTCP, Port: id.src.Port(), Src: netip.AddrPortFrom(id.dst.Addr().Unmap(), id.dst.Port()), Dst: id.src.Addr().Unmap(), Private: p.PrivateData[:p.PrivateDataLen]}
	if id.datagram {
		msg.Kind, msg.Space = ibcm.SIDRREQ, ibcm.SpaceUDP
	}
	id.describe(&msg, p)
	id.class = id.peer.class
	msg.RetryCount, msg.MTU, msg.FlowLabel, msg.TrafficClass, msg.HopLimit = min(p.RetryCount, 7), id.far.mtu, id.peer.flowLabel(), id.class, 64
	msg.AckTimeout = ackTimeout(id.d.verbs.AckDelay(), id.peer.lifetime())
	msg.LocalGID, msg.RemoteGID = id.dst.Addr().As16(), id.src.Addr().As16()
	id.mail(&msg)
}

// sendAcceptance accepts the peer's request.
func (id *cmID) sendAcceptance(p *abi.RdmaUcmConnParam) {
	msg := ibcm.Message{Kind: ibcm.REP, AckDelay: id.d.verbs.AckDelay(), Private: p.PrivateData[:p.PrivateDataLen]}
	id.describe(&msg, p)
	id.mail(&msg)
}

// describe puts this end of a connection into a message.
func (id *cmID) describe(msg *ibcm.Message, p *abi.RdmaUcmConnParam) {
	msg.GUID, msg.QPN, msg.PSN = uint64(id.d.guid()), p.QpNum, id.psn()
	msg.ResponderResources, msg.InitiatorDepth = p.ResponderResources, p.InitiatorDepth
	msg.FlowControl, msg.SRQ, msg.RNRRetry = min(p.FlowControl, 1), min(p.Srq, 1), min(p.RnrRetryCount, 7)
}

// asked reports whether the peer sent the request.
func (id *cmID) asked() bool { return id.peer == nil || id.peer.child }

// sendRejection rejects what the peer sent. A datagram service has a status of its own.
func (id *cmID) sendRejection(reason int32, status uint8, data []byte) {
	msg := ibcm.Message{Kind: ibcm.REJ, Reason: uint16(reason), Private: data}
	switch {
	case id.datagram:
		msg = ibcm.Message{Kind: ibcm.SIDRREP, Status: status, Space: ibcm.SpaceUDP, Port: id.dst.Port(), Private: data}
	case reason == rejectTimeout:
		msg.Of, msg.GUID = 2, uint64(id.d.guid())
	case !id.asked():
		msg.Of = 1
	}
	id.mail(&msg)
}

// sendDelay asks the peer for time.
func (id *cmID) sendDelay() {
	const long = 24 // CMA_CM_MRA_SETTING
	msg := ibcm.Message{Kind: ibcm.MRA, Timeout: long}
	if !id.asked() {
		msg.Of = 1
	}
	id.mail(&msg)
}

// receiveMAD handles a packet from outside to the queue pair of management datagrams.
func (m *manager) receiveMAD(d *Device, route roce.Route, pkt *roce.Packet) {
	if d.removed || pkt.Service() != roce.ServiceUD || pkt.Op() != roce.SendOnly || pkt.QKey != ibcm.QKey {
		return
	}
	msg, err := ibcm.Parse(pkt.Payload)
	if err != nil {
		return
	}
	if msg.Kind == ibcm.REQ || msg.Kind == ibcm.SIDRREQ {
		m.requestFromOutside(d, route, &msg)
		return
	}
	if id := m.pinged(route, &msg); id != nil {
		id.meet()
		return
	}
	id := m.addressee(route, &msg)
	if id == nil {
		if msg.Kind == ibcm.DREQ {
			m.stranger(d, route, &msg).partedToo()
		}
		return
	}
	far := id.peer.far
	p := abi.RdmaUcmConnParam{QpNum: msg.QPN, ResponderResources: msg.ResponderResources, InitiatorDepth: msg.InitiatorDepth,
		FlowControl: msg.FlowControl, Srq: msg.SRQ, RnrRetryCount: msg.RNRRetry}
	copy(p.PrivateData[:], msg.Private)
	switch msg.Kind {
	case ibcm.REP:
		if id.state == connReqSent {
			far.theirs, far.psn, far.delay, id.peer.qpn = msg.LocalID, msg.PSN, msg.AckDelay, msg.QPN
		}
		id.accepted(p)
	case ibcm.RTU:
		id.confirmed()
	case ibcm.MRA:
		if sent := [...]connState{connReqSent, connRepSent}; int(msg.Of) < len(sent) && id.state == sent[msg.Of] {
			id.postpone()
		}
	case ibcm.REJ:
		id.rejected(int32(msg.Reason), p)
	case ibcm.DREQ:
		if msg.QPN == id.qpn {
			far.tid = msg.TID
			m.parted(id, id.peer)
		}
	case ibcm.DREP:
		id.partedToo()
	case ibcm.SIDRREP:
		m.foundOutside(id, &msg, p)
	}
}

// foundOutside handles the answer of a datagram service.
func (m *manager) foundOutside(id *cmID, msg *ibcm.Message, p abi.RdmaUcmConnParam) {
	switch {
	case id.state != connReqSent:
	case msg.Status != 0:
		id.settle(connIdle)
		id.notFound(int32(msg.Status), p)
	default:
		id.found(&abi.RdmaUcmUdParam{QpNum: msg.QPN, Qkey: msg.QKey, PrivateData: p.PrivateData, PrivateDataLen: answerPrivate, AhAttr: id.address(id.dst.Addr().As16())})
	}
}

// stranger returns an ID that stands for the sender of a message of an unknown connection.
func (m *manager) stranger(d *Device, route roce.Route, msg *ibcm.Message) *cmID {
	return &cmID{m: m, d: d, to: d, src: netip.AddrPortFrom(route.Src, msg.Src.Port()), dst: netip.AddrPortFrom(route.Dst, msg.Port), state: connReqSent,
		class: msg.TrafficClass, datagram: msg.Kind == ibcm.SIDRREQ, qpn: msg.QPN, far: &farEnd{own: msg.RemoteID, theirs: msg.LocalID, tid: msg.TID, psn: msg.PSN, mtu: msg.MTU}}
}

// addressee returns the ID that a message is for, if it comes from the ID's peer, or nil.
func (m *manager) addressee(route roce.Route, msg *ibcm.Message) *cmID {
	id := m.ids[msg.RemoteID^m.secret]
	if msg.Kind == ibcm.REJ && msg.Reason == rejectTimeout && msg.RemoteID == 0 {
		// The peer gave up before it knew the number. C: cm_acquire_rejected_id
		if from := m.far[farKey{addr: route.Src, number: msg.LocalID}]; from != nil {
			id = from.peer
		}
	}
	switch {
	case id == nil || !id.isFar() || id.datagram != (msg.Kind == ibcm.SIDRREP) || !id.isBetween(route):
		return nil
	case id.peer.far.theirs == msg.LocalID || id.state == connReqSent || msg.Kind == ibcm.SIDRREP:
		return id
	}
	return nil
}

// requestFromOutside handles a request for a connection or a datagram service. A listener's backlog limits how many wait.
func (m *manager) requestFromOutside(d *Device, route roce.Route, msg *ibcm.Message) {
	from := m.stranger(d, route, msg)
	if known := m.far[from.key()]; known != nil && known.dst == from.dst {
		from = known
	}
	space := uint64(ibcm.SpaceTCP)
	if from.datagram {
		space = ibcm.SpaceUDP
	}
	const reliable, longest = 0, 5
	switch {
	case msg.Space != space || !msg.Dst.IsValid():
		from.refused(rejectNoService)
		return
	case msg.Src.Addr() != route.Src || msg.Dst != route.Dst, !from.datagram && (msg.Transport != reliable || msg.MTU < 1 || msg.MTU > longest):
		from.refused(rejectConsumer)
		return
	}
	p := abi.RdmaUcmConnParam{QpNum: msg.QPN, ResponderResources: msg.ResponderResources, InitiatorDepth: msg.InitiatorDepth, FlowControl: msg.FlowControl,
		RetryCount: msg.RetryCount, RnrRetryCount: msg.RNRRetry, Srq: msg.SRQ}
	copy(p.PrivateData[:], msg.Private)
	before := from.peer
	m.request(from, p)
	if child := from.peer; child != before {
		from.far.own, child.timeout = child.handle^m.secret, msg.AckTimeout
		m.far[from.key()] = from
	}
}
