package fakefabric

import (
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// cmID is the kernel's side of an ID. The manager's lock guards it.
type cmID struct {
	uid      uint64
	handle   uint32
	channel  *channel
	src, dst netip.AddrPort
	listens  bool
	peer     *cmID
	qpn      uint32
	asked    bool // to connect, and has not answered
	stands   bool
	told     uint32 // events that were got
}

func (id *cmID) tell(typ rdmacm.EventType, status int32, param *abi.RdmaUcmConnParam) {
	id.channel.report(id, id.uid, id.handle, typ, status, param)
}

func (m *manager) connect(id *cmID, p *abi.RdmaUcmConnParam) error {
	id.qpn = p.QpNum
	for _, l := range m.ids {
		if !l.listens || l.src != id.dst {
			continue
		}
		server := m.create(l.channel, 0)
		server.src, server.dst, server.peer, id.peer = id.dst, id.src, id, server
		server.asked = true
		// The request counts for the listener.
		l.channel.report(l, l.uid, server.handle, rdmacm.EventConnectRequest, 0, p)
		return nil
	}
	id.tell(rdmacm.EventRejected, int32(rdmacm.RejectInvalidServiceID), nil)
	return nil
}

func (m *manager) accept(id *cmID, a *abi.RdmaUcmAccept) error {
	if id.peer == nil {
		return syscall.ENOTCONN
	}
	if a.ConnParam.Valid == 0 { // the dialling side is ready
		id.peer.tell(rdmacm.EventEstablished, 0, nil)
		return nil
	}
	id.uid, id.qpn = a.Uid, a.ConnParam.QpNum
	id.asked, id.stands, id.peer.stands = false, true, true
	m.f.join(id.qpn, id.peer.qpn)
	if m.f.iwarp {
		id.peer.tell(rdmacm.EventEstablished, 0, &a.ConnParam)
		id.tell(rdmacm.EventEstablished, 0, nil)
		return nil
	}
	id.peer.tell(rdmacm.EventConnectResponse, 0, &a.ConnParam)
	return nil
}

// reject answers a request with no, unless it has been answered.
func (id *cmID) reject() {
	if id.asked {
		id.asked = false
		id.peer.tell(rdmacm.EventRejected, int32(rdmacm.RejectConsumer), nil)
	}
}

// disconnect ends a connection for both.
func (m *manager) disconnect(id *cmID) error {
	if id == nil || !id.stands {
		return syscall.ENOTCONN
	}
	id.stands, id.peer.stands = false, false
	m.f.part(id.qpn, id.peer.qpn)
	id.tell(rdmacm.EventDisconnected, 0, nil)
	id.peer.tell(rdmacm.EventDisconnected, 0, nil)
	return nil
}

// qpAttr has the masks that kernels give.
func (m *manager) qpAttr(state uint32) *abi.IbUverbsQpAttr {
	const iwarpInit = uverbs.QPAttrState | uverbs.QPAttrAccess | uverbs.QPAttrPort
	a := &abi.IbUverbsQpAttr{QpState: state, PortNum: 1, MaxDestRdAtomic: 9, MaxRdAtomic: 9}
	switch s := uverbs.QPState(state); {
	case m.f.iwarp:
		a.QpAttrMask = uint32(iwarpInit)
	case s == uverbs.QPStateInit:
		a.QpAttrMask = uint32(iwarpInit | uverbs.QPAttrPKeyIndex)
	case s == uverbs.QPStateRTR:
		a.QpAttrMask = uint32(uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN |
			uverbs.QPAttrRQPSN | uverbs.QPAttrMaxDestRDAtomic | uverbs.QPAttrMinRNRTimer)
		a.PathMtu, a.DestQpNum = uint32(uverbs.MTU1024), 99
		a.AhAttr.Grh.Dgid, a.AhAttr.Grh.SgidIndex, a.AhAttr.IsGlobal, a.AhAttr.PortNum = fakeverbs.IPv4GID, 1, 1, 1
	case s == uverbs.QPStateRTS:
		a.QpAttrMask = uint32(uverbs.QPAttrState | uverbs.QPAttrTimeout | uverbs.QPAttrRetryCnt |
			uverbs.QPAttrRNRRetry | uverbs.QPAttrSQPSN | uverbs.QPAttrMaxQPRDAtomic)
	}
	return a
}
