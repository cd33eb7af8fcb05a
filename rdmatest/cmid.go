package rdmatest

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// cmID is the kernel's side of an ID. The fabric's lock guards it.
type cmID struct {
	m        *manager
	uid      uint64
	handle   uint32
	channel  *channel
	datagram bool
	child    bool // created for a request to a listener
	src, dst netip.AddrPort
	d        *Device // the device of src
	to       *Device // the device of dst
	listens  bool
	resolved bool // the destination can be reached
	routed   bool
	begun    bool // it has begun to connect, or is a child
	dropped  bool // its program was killed, or its device removed
	dead     bool // its program was killed
	parted   bool // it received the event DISCONNECTED
	state    connState
	waiting  *exchange // waits for an answer of the peer
	peer     *cmID
	far      *farEnd // of an ID that stands for a peer in the network outside
	qpn      uint32
	retries  uint8 // of the connection
	rnr      uint8
	reads    uint8 // how many READs and atomics it issues at a time
	serves   uint8 // how many of the peer it serves at a time
	backlog  int   // of a listener: how many connect requests may wait for its program
	timeout  uint8 // for acknowledgements: suggested by the peer for a child, set by the program for others
	timeSet  bool  // the program set it
	tos      uint8 // traffic class that the program set
	class    uint8 // traffic class of the route
	joins    []*join
	reported uint32 // number of events that the program received
}

func (id *cmID) String() string {
	return fmt.Sprintf("connection manager ID %d from %v to %v", id.handle, id.src, id.dst)
}

// report reports an event, unless the ID is gone. As in ucma_event_handler, a child that was not
// accepted receives no events.
func (id *cmID) report(typ uint32, status int32, param []byte) {
	id.parted = id.parted || typ == abi.RDMA_CM_EVENT_DISCONNECTED
	if id.m.isAlive(id) && (!id.child || id.uid != 0) {
		id.channel.report(event{id: id, resp: id.event(typ, status, param)})
	}
}

// isAlive reports whether the ID exists and was not dropped.
func (m *manager) isAlive(id *cmID) bool { return m.ids[id.handle] == id && !id.dropped }

func (id *cmID) event(typ uint32, status int32, param []byte) abi.RdmaUcmEventResp {
	resp := abi.RdmaUcmEventResp{Uid: id.uid, Id: id.handle, Event: typ, Status: uint32(status)}
	copy(resp.Param[:], param)
	return resp
}

// mostBacklog is the limit of waiting requests in place of 0 and of larger ones (max_backlog of ucma.c).
const mostBacklog = 1024

// listen begins to listen. An ID without an address would be bound to any of its host, but the manager
// serves all hosts and does not know which one it is on.
func (id *cmID) listen(backlog uint32) error {
	if id.d == nil || id.listens || id.to != nil {
		return syscall.EINVAL
	}
	id.listens, id.backlog = true, mostBacklog
	if backlog > 0 && backlog < mostBacklog {
		id.backlog = int(backlog)
	}
	return nil
}

// isFull reports whether as many connect requests wait for the listener's program as it allows.
func (id *cmID) isFull() bool {
	waiting := 0
	for _, ev := range id.channel.events {
		if ev.id == id && ev.child != nil {
			waiting++
		}
	}
	return waiting >= id.backlog
}

// resolveAddr chooses the device of an ID: that of its source address, or else the first device
// of the same kind as the one at the destination.
func (m *manager) resolveAddr(id *cmID, r abi.RdmaUcmResolveAddr) error {
	if id.listens || id.to != nil {
		return syscall.EINVAL
	}
	id.dst = parseSockaddr(r.DstAddr)
	dst := id.dst.Addr().Unmap()
	to := m.f.owner(dst)
	if src := parseSockaddr(r.SrcAddr); id.d == nil && r.SrcSize > 0 && !src.Addr().IsUnspecified() {
		if err := m.bind(id, src); err != nil {
			return err
		}
	}
	if id.d == nil {
		i := slices.IndexFunc(m.f.devices, func(d *Device) bool { return d.reaches(dst, to) && !d.removed && !d.info.noCM && len(d.addrs) > 0 })
		if i >= 0 {
			id.d = m.f.devices[i]
			m.setSource(id, m.anyPort(id, id.d.addrLike(id.dst.Addr())))
		}
	}
	switch {
	case id.d == nil || to != nil || !id.d.reaches(dst, nil):
	case dst.IsMulticast():
		to = id.d // a group has no neighbour
	default:
		to = m.meetOutside(id)
	}
	if id.d == nil || to == nil {
		id.report(abi.RDMA_CM_EVENT_ADDR_ERROR, -int32(syscall.ENODEV), nil)
		return nil
	}
	id.to = to
	m.neighbour(id, time.Duration(r.TimeoutMs)*time.Millisecond)
	return nil
}

// neighbour waits until the destination's network device can be reached. Like ARP, it tries once
// a second.
func (m *manager) neighbour(id *cmID, limit time.Duration) {
	switch {
	case !m.isAlive(id) || id.resolved:
	case !id.isFar() && m.f.isLinked(id.d, id.to) && m.f.wire.loss < 1:
		id.meet()
	case limit <= 0:
		id.to, id.peer = nil, nil
		id.report(abi.RDMA_CM_EVENT_ADDR_ERROR, -int32(syscall.ETIMEDOUT), nil)
	default:
		if id.isFar() {
			m.carry(id.d, id.to, id.peer.ping)
		}
		step := min(limit, time.Second)
		m.f.later(step, func() { m.neighbour(id, limit-step) })
	}
}

// meet ends the resolution of the destination's address.
func (id *cmID) meet() {
	id.resolved = true
	id.report(abi.RDMA_CM_EVENT_ADDR_RESOLVED, 0, nil)
}

// addrLike returns an address of d of the same family as a, or if there is none, another one. Without any address it
// returns the zero Addr.
func (d *Device) addrLike(a netip.Addr) (other netip.Addr) {
	for _, own := range d.addrs {
		if own.Is4() == a.Is4() {
			return own
		}
		if !other.IsValid() {
			other = own
		}
	}
	return other
}

func (id *cmID) resolveRoute() error {
	if !id.resolved || id.routed {
		return syscall.EINVAL
	}
	id.routed = true
	if id.d.verbs.IsRoCE() {
		id.class = id.tos
	}
	id.report(abi.RDMA_CM_EVENT_ROUTE_RESOLVED, 0, nil)
	return nil
}

// afIB is the family of addresses that are GIDs.
const afIB = 27

func (id *cmID) query(option uint32, out []byte) error {
	var resp abi.RdmaUcmQueryAddrResp
	if id.d != nil {
		resp.PortNum, resp.IbdevIndex, resp.NodeGuid = 1, id.d.index, reversed(id.d.guid())
	}
	switch option {
	case abi.RDMA_USER_CM_QUERY_ADDR:
		resp.SrcSize = putSockaddr(&resp.SrcAddr, id.src)
		if id.dst.IsValid() {
			resp.DstSize = putSockaddr(&resp.DstAddr, id.dst)
		}
	case abi.RDMA_USER_CM_QUERY_GID:
		resp.SrcAddr[0], resp.DstAddr[0] = afIB, afIB
		local, remote := id.gids()
		copy(resp.SrcAddr[8:], local[:])
		copy(resp.DstAddr[8:], remote[:])
	case abi.RDMA_USER_CM_QUERY_PATH: // IDs of the model have no paths
		copy(out, abi.Bytes(&abi.RdmaUcmQueryPathResp{}))
		return nil
	default:
		return syscall.EINVAL
	}
	copy(out, abi.Bytes(&resp))
	return nil
}

// gids returns the GIDs of both ends.
func (id *cmID) gids() (local, remote [16]byte) {
	if id.d == nil {
		return local, remote
	}
	if id.d.info.iwarp || id.d.subnet != nil {
		local = id.d.gidTable()[0]
		if to := id.m.f.owner(id.dst.Addr().Unmap()); to != nil {
			remote = to.gidTable()[0]
		}
		return local, remote
	}
	local = id.src.Addr().As16()
	if id.dst.IsValid() {
		remote = id.dst.Addr().As16()
	}
	return local, remote
}

// The attribute masks that the kernel returns.
const (
	maskIWARP = abi.IB_QP_STATE | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PORT
	maskInit  = maskIWARP | abi.IB_QP_PKEY_INDEX
	maskUD    = abi.IB_QP_STATE | abi.IB_QP_PORT | abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY
	maskRTR   = abi.IB_QP_STATE | abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_DEST_QPN | abi.IB_QP_RQ_PSN |
		abi.IB_QP_MAX_DEST_RD_ATOMIC | abi.IB_QP_MIN_RNR_TIMER
	maskRTS = abi.IB_QP_STATE | abi.IB_QP_TIMEOUT | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY | abi.IB_QP_SQ_PSN |
		abi.IB_QP_MAX_QP_RD_ATOMIC
)

// packetLifetime is CMA_IBOE_PACKET_LIFETIME. The time is 4.096 µs times 2 to this power.
const packetLifetime = 16

// lifetime returns how long the ID assumes that a packet is on its way.
func (id *cmID) lifetime() uint8 {
	if id.timeSet && id.timeout > 0 {
		return id.timeout - 1
	}
	return packetLifetime
}

// ackTimeout returns how long to wait for an acknowledgement of a device with a delay, like cm_ack_timeout.
// It is the longer one of the round-trip time and the device's own delay, and twice as long if
// the two are similar.
func ackTimeout(ackDelay, lifetime uint8) uint8 {
	way, delay := int(lifetime)+1, int(ackDelay)
	timeout := max(way, delay)
	if way >= delay && delay >= way-1 || way < delay && way >= delay-1 {
		timeout++
	}
	return uint8(min(timeout, 31))
}

// acknowledgement returns the acknowledgement timeout of the ID's queue pair.
func (id *cmID) acknowledgement() uint8 {
	if id.timeSet || id.child {
		return id.timeout
	}
	delay := id.to.verbs.AckDelay()
	if id.isFar() {
		delay = id.peer.far.delay
	}
	return ackTimeout(delay, id.lifetime())
}

// pathRecord is the size of struct ib_path_rec_data.
const pathRecord = 88

// setOption sets the traffic class, or how long to wait for acknowledgements. It ignores the other options, which
// have no effect in the model.
func (id *cmID) setOption(o abi.RdmaUcmSetOption, value []byte) error {
	size := map[uint32]int{abi.RDMA_OPTION_ID_TOS: 1, abi.RDMA_OPTION_ID_REUSEADDR: 4, abi.RDMA_OPTION_ID_AFONLY: 4, abi.RDMA_OPTION_ID_ACK_TIMEOUT: 1}
	switch {
	case o.Level == abi.RDMA_OPTION_IB && o.Optname == abi.RDMA_OPTION_IB_PATH:
		if len(value) == 0 || len(value)%pathRecord != 0 {
			return syscall.EINVAL
		}
		return nil
	case o.Level != abi.RDMA_OPTION_ID || size[o.Optname] == 0:
		return syscall.ENOSYS
	case len(value) != size[o.Optname],
		o.Optname == abi.RDMA_OPTION_ID_REUSEADDR && !slices.ContainsFunc(value, isSet) && id.src.IsValid(),
		o.Optname == abi.RDMA_OPTION_ID_AFONLY && (id.listens || id.to != nil),
		o.Optname == abi.RDMA_OPTION_ID_ACK_TIMEOUT && id.datagram:
		return syscall.EINVAL
	case o.Optname == abi.RDMA_OPTION_ID_TOS:
		id.tos = value[0]
	case o.Optname == abi.RDMA_OPTION_ID_ACK_TIMEOUT:
		id.timeout, id.timeSet = value[0], true
	}
	return nil
}

func isSet(b byte) bool { return b != 0 }

// psn returns the number of the first packet that the ID's end of a connection sends. The
// kernel chooses a random number, so that packets of a former connection to the same queue
// pair number are not mistaken for packets of this one. Between hosts, each end chooses the number of its peer.
func (id *cmID) psn() uint32 {
	const odd = 0x9e3779 // different IDs have different numbers
	switch {
	case id.isFar():
		return id.peer.far.psn
	case id.far != nil:
		id = id.peer
	}
	return id.handle * odd & mask24
}

func (id *cmID) qpAttr(state uint32, out []byte) error {
	if id.d == nil {
		return syscall.EINVAL
	}
	a := &abi.IbUverbsQpAttr{QpState: state, PortNum: 1, MaxDestRdAtomic: id.serves, MaxRdAtomic: id.reads}
	switch {
	case id.d.info.iwarp && state != abi.IB_QPS_INIT: // the kernel moves the queue pair itself
	case id.d.info.iwarp:
		a.QpAttrMask, a.QpAccessFlags = maskIWARP, id.access()
	case id.datagram:
		a.QpAttrMask, a.Qkey = maskUD, udpQKey
	case state == abi.IB_QPS_INIT && (!id.begun || id.state == connReqSent || id.isMade()):
		a.QpAttrMask, a.QpAccessFlags = maskInit, id.access()
	case !id.isMade() || state != abi.IB_QPS_RTR && state != abi.IB_QPS_RTS:
		return syscall.EINVAL
	case state == abi.IB_QPS_RTR:
		_, remote := id.gids()
		a.QpAttrMask, a.PathMtu, a.DestQpNum, a.RqPsn, a.AhAttr = maskRTR, id.pathMTU(), id.peer.qpn, id.peer.psn(), id.address(remote)
		a.AhAttr.Grh.FlowLabel = id.flowLabel()
	default:
		a.SqPsn = id.psn()
		a.QpAttrMask, a.Timeout, a.RetryCnt, a.RnrRetry = maskRTS, id.acknowledgement(), id.retries, id.rnr
	}
	copy(out, abi.Bytes(a))
	return nil
}

// flowLabel returns the flow label of a connection over RoCE. As in Linux, both ends make it of the ports, so that
// connections spread over the paths of a network.
func (id *cmID) flowLabel() uint32 {
	from, to := id.src.Port(), id.dst.Port()
	switch {
	case !id.d.verbs.IsRoCE():
		return 0
	case id.child:
		from, to = to, from
	}
	const label = 1<<20 - 1
	return (uint32(from)*31 + uint32(to)) & label
}

// isMade reports whether the ID knows its peer's queue pair and the connection is not over.
func (id *cmID) isMade() bool {
	switch id.state {
	case connReqRcvd, connRepSent, connRepRcvd, connEstablished:
		return true
	}
	return false
}

// access returns the access that the peer has. Before there is a request it has none.
func (id *cmID) access() uint32 {
	const write, read = abi.IB_UVERBS_ACCESS_REMOTE_WRITE, abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	switch {
	case !id.begun:
		return 0
	case id.d.info.iwarp:
		return write | read
	case id.serves == 0:
		return write
	case id.d.info.flushes:
		return write | read | abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT
	}
	return write | read
}

func (d *Device) gidIndex(gid [16]byte) uint8 { return uint8(max(0, slices.Index(d.gidTable(), gid))) }

// settle sets the state and ends the wait for an answer.
func (id *cmID) settle(s connState) {
	if id.waiting != nil {
		id.waiting.stop()
		id.waiting = nil
	}
	id.state = s
	if s == connOver && !id.d.info.iwarp {
		id.timeWait()
	}
}

// timeWait ends TIMEWAIT after the peer's acknowledgement timeout, like cm_enter_timewait.
// rdma_cm reports the end to IDs that received the event DISCONNECTED.
func (id *cmID) timeWait() {
	x := &exchange{}
	id.waiting = x
	x.timer = id.m.f.later(time.Millisecond<<max(int(id.acknowledgement())-8, 0), func() {
		if id.waiting != x {
			return
		}
		id.settle(connIdle)
		if id.parted {
			id.report(abi.RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, nil)
		}
	})
}

// The manager's times. They are those of rdma_cm (CMA_CM_RESPONSE_TIMEOUT 20,
// CMA_IBOE_PACKET_LIFETIME 16) and of a program that needs time (CMA_CM_MRA_SETTING 24). The times
// of iWARP drivers are in the table of kinds.
const (
	sendAgain   = 15                                // CMA_MAX_CM_RETRIES
	requestWait = (4096 + 2*256) * time.Millisecond // for an answer to a request to connect
	answerWait  = 4096 * time.Millisecond           // for an answer to any other message
	longWait    = (65536 + 512) * time.Millisecond  // for the answer of a peer that asked for time

	firstSYN   = time.Second // until TCP sends a SYN again
	longestRTO = 120 * time.Second
)

// exchange is a message that is sent again until it is answered.
type exchange struct {
	send    func()
	expired func()
	wait    time.Duration // for an answer
	next    time.Duration // the wait after the last attempt
	tries   int
	timer   *time.Timer
}

// patience is how long the ID waits for an answer to a request.
func (id *cmID) patience() time.Duration {
	if id.datagram || id.child {
		return answerWait
	}
	return requestWait
}

// exchange sends a message, and sends it again until the ID settles. After the last try it
// calls expired.
func (id *cmID) exchange(wait time.Duration, send, expired func()) {
	x := &exchange{send: send, expired: expired, wait: wait}
	id.waiting = x
	id.try(x)
}

func (id *cmID) try(x *exchange) {
	if id.waiting != x {
		return
	}
	if x.tries > sendAgain {
		id.waiting = nil
		x.expired()
		return
	}
	x.tries++
	x.next, x.timer = x.wait, nil
	x.send()
	if id.waiting == x {
		try := x.tries
		x.timer = id.m.f.later(x.next, func() {
			if x.tries == try { // a timer that was set again may have fired before
				id.try(x)
			}
		})
	}
}

func (x *exchange) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// postpone makes the ID wait longer, because the peer has received the message and needs time.
func (id *cmID) postpone() {
	if id.far != nil {
		id.sendDelay()
		return
	}
	if x := id.waiting; x != nil {
		if x.next = longWait; x.timer != nil {
			x.timer.Reset(longWait)
		}
	}
}

// limit ends an attempt to connect over iWARP after the time d.
func (id *cmID) limit(d time.Duration) {
	if id.waiting != nil {
		id.waiting.stop()
	}
	x := &exchange{}
	id.waiting = x
	x.timer = id.m.f.later(d, func() {
		if id.waiting == x {
			id.unreachable()
		}
	})
}

// carry calls arrive for one message of the manager, unless the network loses it.
func (m *manager) carry(from, to *Device, arrive func()) {
	m.f.after(m.f.wire.latency, func() {
		if !from.removed && !to.removed && m.f.isLinked(from, to) && !m.f.loses() {
			arrive()
		}
	})
}

// stream delivers a message over TCP. As long as wanted returns true, it retries, and doubles
// the delay after each try.
func (m *manager) stream(from, to *Device, rto time.Duration, wanted func() bool, arrive func()) {
	switch f := m.f; {
	case !wanted():
	case f.isLinked(from, to) && !f.loses():
		arrive()
	default:
		f.later(rto, func() { m.stream(from, to, min(2*rto, longestRTO), wanted, arrive) })
	}
}

// putSockaddr writes a struct sockaddr_in or sockaddr_in6.
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

// isSockaddr reports whether b has an address of a family that the manager knows.
func isSockaddr(b [128]uint8) bool { return slices.Contains([]uint8{2, 10, afIB}, b[0]) && b[1] == 0 }

func parseSockaddr(b [128]uint8) netip.AddrPort {
	port := uint16(b[2])<<8 | uint16(b[3])
	if b[0] == 2 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
}
