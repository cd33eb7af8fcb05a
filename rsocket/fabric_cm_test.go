package rsocket

import (
	"context"
	"math/bits"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// manager is a connection manager that connects the IDs of this process with each other.
type manager struct {
	f *fabric

	mu   sync.Mutex // guards what follows, and the channels' events
	last uint32
	port uint16
	ids  map[uint32]*cmID
}

// cmID is the kernel's side of an ID.
type cmID struct {
	uid      uint64
	handle   uint32
	channel  *cmChannel
	src, dst netip.AddrPort
	listens  bool
	peer     *cmID
	qpn      uint32
	asked    bool // to connect, and has not answered
	stands   bool
	told     uint32 // events that were got
}

// cmChannel is an event channel of the manager's.
type cmChannel struct {
	m      *manager
	events []cmEvent
	some   chan struct{}
	closed chan struct{}
}

type cmEvent struct {
	id   *cmID
	resp abi.RdmaUcmEventResp
}

func raw[T any](t *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t)) }

func view[T any](b []byte) (t T) { copy(raw(&t), b); return t }

// sockaddr is a struct sockaddr_in or sockaddr_in6.
func putSockaddr(to *[128]uint8, a netip.AddrPort) uint16 {
	to[2], to[3] = byte(a.Port()>>8), byte(a.Port())
	if a.Addr().Is4() {
		to[0] = 2
		copy(to[4:], a.Addr().AsSlice())
		return 16
	}
	to[0] = 10
	copy(to[8:], a.Addr().AsSlice())
	return 28
}

func parseSockaddr(b [128]uint8) netip.AddrPort {
	port := uint16(b[2])<<8 | uint16(b[3])
	if b[0] == 2 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
}

// report queues an event. The lock is held.
func (id *cmID) report(uid uint64, handle uint32, typ rdmacm.EventType, status int32, param *abi.RdmaUcmConnParam) {
	ev := cmEvent{id: id, resp: abi.RdmaUcmEventResp{Uid: uid, Id: handle, Event: uint32(typ), Status: uint32(status)}}
	if param != nil {
		copy(ev.resp.Param[:], raw(param))
	}
	id.channel.events = append(id.channel.events, ev)
	select {
	case id.channel.some <- struct{}{}:
	default:
	}
}

func (id *cmID) tell(typ rdmacm.EventType, status int32, param *abi.RdmaUcmConnParam) {
	id.report(id.uid, id.handle, typ, status, param)
}

func (ch *cmChannel) Await(ctx context.Context, _, out []byte) error {
	for {
		ch.m.mu.Lock()
		if len(ch.events) > 0 {
			ev := ch.events[0]
			ch.events = ch.events[1:]
			ev.id.told++
			copy(out, raw(&ev.resp))
			ch.m.mu.Unlock()
			return nil
		}
		ch.m.mu.Unlock()
		select {
		case <-ch.some:
		case <-ctx.Done():
			return ctx.Err()
		case <-ch.closed:
			return os.ErrClosed
		}
	}
}

func (ch *cmChannel) Descriptor(use func(uint32)) error { use(7); return nil }

func (ch *cmChannel) Close() error { close(ch.closed); return nil }

func (ch *cmChannel) Command(in, out []byte) error {
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	return ch.m.command(ch, view[abi.RdmaUcmCmdHdr](in).Cmd, in[8:], out)
}

// named finds the ID of a command whose body has its number at off.
func (m *manager) named(body []byte, off int) *cmID {
	return m.ids[view[uint32](body[off:])]
}

func (m *manager) command(ch *cmChannel, cmd uint32, body, out []byte) error {
	switch cmd {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		id := m.create(ch, view[abi.RdmaUcmCreateId](body).Uid)
		copy(out, raw(&abi.RdmaUcmCreateIdResp{Id: id.handle}))
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
	case abi.RDMA_USER_CM_CMD_BIND:
		id := m.named(body, 0)
		id.src = m.bound(parseSockaddr(view[abi.RdmaUcmBind](body).Addr))
	case abi.RDMA_USER_CM_CMD_LISTEN:
		m.named(body, 0).listens = true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		r := view[abi.RdmaUcmResolveAddr](body)
		id := m.ids[r.Id]
		id.dst = parseSockaddr(r.DstAddr)
		id.src = m.bound(netip.AddrPortFrom(id.dst.Addr(), 0))
		id.tell(rdmacm.EventAddrResolved, 0, nil)
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		m.named(body, 0).tell(rdmacm.EventRouteResolved, 0, nil)
	case abi.RDMA_USER_CM_CMD_QUERY:
		m.query(m.named(body, 8), out)
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		copy(out, raw(m.qpAttr(view[abi.RdmaUcmInitQpAttr](body).QpState)))
	case abi.RDMA_USER_CM_CMD_CONNECT:
		c := view[abi.RdmaUcmConnect](body)
		return m.connect(m.ids[c.Id], &c.ConnParam)
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		a := view[abi.RdmaUcmAccept](body)
		return m.accept(m.ids[a.Id], &a)
	case abi.RDMA_USER_CM_CMD_REJECT:
		m.named(body, 0).reject()
	case abi.RDMA_USER_CM_CMD_DISCONNECT:
		return m.disconnect(m.named(body, 0))
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		id := m.named(body, 8)
		_ = m.disconnect(id)
		id.reject()
		delete(m.ids, id.handle)
		id.channel.events = slices.DeleteFunc(id.channel.events, func(ev cmEvent) bool { return ev.id == id })
		copy(out, raw(&abi.RdmaUcmDestroyIdResp{EventsReported: id.told}))
	default:
		return syscall.EINVAL
	}
	return nil
}

func (m *manager) create(ch *cmChannel, uid uint64) *cmID {
	m.last++
	id := &cmID{uid: uid, handle: m.last, channel: ch}
	m.ids[id.handle] = id
	return id
}

func (m *manager) bound(a netip.AddrPort) netip.AddrPort {
	if a.Port() != 0 {
		return a
	}
	m.port++
	return netip.AddrPortFrom(a.Addr(), m.port)
}

func (m *manager) query(id *cmID, out []byte) {
	var resp abi.RdmaUcmQueryAddrResp
	resp.SrcSize = putSockaddr(&resp.SrcAddr, id.src)
	if id.dst.IsValid() {
		resp.DstSize = putSockaddr(&resp.DstAddr, id.dst)
	}
	resp.PortNum, resp.IbdevIndex, resp.NodeGuid = 1, m.f.index, bits.ReverseBytes64(uint64(fabricGUID))
	copy(out, raw(&resp))
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
		l.report(l.uid, server.handle, rdmacm.EventConnectRequest, 0, p)
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

const fabricGUID = netlinkrdma.GUID(0x0c7680fffebfe77b)
