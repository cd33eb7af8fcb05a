package rdmatest

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// letter is a datagram or an Ethernet frame that has been sent and has not arrived.
type letter struct {
	from *pair
	k    *packet
}

// overtaken holds the datagrams that will arrive after a later one.
type overtaken []letter

// datagram sends a datagram.
func (f *Fabric) datagram(p *pair, k *packet, now time.Time) {
	l := letter{p, k}
	if l.leaves() {
		if f.isPaused() {
			f.held = append(f.held, func() { f.sendOut(l) })
		} else {
			f.sendOut(l)
		}
		if !isGroup(k.w.To.AH.Attr.Grh.Dgid) {
			return
		}
	}
	if f.wire.reordered > 0 && f.random.Float64() < f.wire.reordered {
		f.overtaken = append(f.overtaken, l)
		return
	}
	f.post(l, now)
	f.overtaken.release(f)
}

func (o *overtaken) release(f *Fabric) {
	late := *o
	*o = nil
	for _, l := range late {
		f.post(l, time.Now())
	}
}

func (f *Fabric) post(l letter, now time.Time) {
	f.after(l.k.due.Sub(now), func() {
		if f.isPaused() {
			f.held = append(f.held, func() { f.receive(l) })
			return
		}
		f.receive(l)
	})
}

// receive delivers a datagram to its address.
func (f *Fabric) receive(l letter) {
	to := l.k.w.To
	switch {
	case f.loses() || !l.from.d.works() || !l.from.d.verbs.Up():
		return
	case l.from.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET:
		f.receiveFrames(l.from.d, l.k)
		return
	case to.AH == nil || len(l.k.data) > mtu:
		return
	}
	dgid := to.AH.Attr.Grh.Dgid
	if to.AH.Attr.IsGlobal == 0 || !isGroup(dgid) {
		if d := f.at(l.from.d, to.AH.Attr.Grh.SgidIndex, dgid, to.AH.Attr.Dlid); d != nil && f.hasPath(l.from.d, d) {
			f.receiveAt(l.arrives(), d.verbs.QP(to.QPN))
		}
		return
	}
	if !l.from.d.verbs.IsInfiniBand() && !l.from.d.hasGID(int(to.AH.Attr.Grh.SgidIndex)) {
		return
	}
	for _, d := range f.devices {
		if f.hasPath(l.from.d, d) {
			f.members(d, dgid, func(qp *fakeverbs.QP) { f.receiveAt(l.arrives(), qp) })
		}
	}
}

// members calls deliver with each queue pair of a device that receives the datagrams of a multicast group.
func (f *Fabric) members(d *Device, group [16]byte, deliver func(*fakeverbs.QP)) {
	if d.info.softRoCE && !f.manager.hasJoined(d, group) {
		return
	}
	for _, k := range d.verbs.Openings() {
		for _, qp := range k.QueuePairs() {
			if qp.IsIn(group) {
				deliver(qp)
			}
		}
	}
}

func isGroup(gid [16]byte) bool { return netip.AddrFrom16(gid).Unmap().IsMulticast() }

// ownQKey is the bit of a Q_Key that makes the device send the queue pair's own Q_Key instead.
const ownQKey = 1 << 31

// qkey returns the Q_Key that the datagram has.
func (l *letter) qkey() uint32 {
	if qkey := l.k.w.To.QKey; qkey&ownQKey == 0 || l.from.d.info.softRoCE {
		return qkey
	}
	return l.from.qp.Attr().Qkey
}

// leaves reports whether the datagram is for the network outside.
func (l *letter) leaves() bool {
	to := l.k.w.To
	return l.from.d.onWire() && l.from.qp.Type == abi.IB_UVERBS_QPT_UD && to.AH != nil && to.AH.Attr.IsGlobal != 0 && len(l.k.data) <= mtu &&
		(l.from.d.fabric.isOutside(to.AH.Attr.Grh.Dgid) || isGroup(to.AH.Attr.Grh.Dgid))
}

// arrival is a datagram at its destination.
type arrival struct {
	k         *packet
	header    []byte // in front of the data
	qkey, qpn uint32 // qpn is the sender's
	lid       uint16 // the sender's
	udp, ipv4 bool
}

func (l *letter) arrives() arrival {
	d := l.from.d
	return arrival{k: l.k, header: header(d, l.k), qkey: l.qkey(), qpn: l.from.qp.Num, lid: d.base(), udp: d.verbs.IsRoCE(), ipv4: isIPv4(d, &l.k.w.To.AH.Attr)}
}

// receiveAt delivers a datagram to a queue pair, or drops it if the queue pair can't accept it.
func (f *Fabric) receiveAt(l arrival, qp *fakeverbs.QP) {
	if qp == nil || qp.Type != abi.IB_UVERBS_QPT_UD {
		return
	}
	a := qp.Attr()
	if a.QpState < abi.IB_QPS_RTR || a.QpState == abi.IB_QPS_ERR || a.Qkey != l.qkey {
		return
	}
	to := f.pairOf(qp)
	b := append(l.header, l.k.data...)
	if r, ok := qp.PeekRecv(); !ok || len(b) > roomIn(r.SGL) {
		return // the receive stays on the queue
	}
	r := to.takeRecv()
	switch {
	case r == nil:
	case !scatter(qp, r.SGL, b):
		status, _ := to.d.rules.(roceRules).unfit(false)
		qp.Received(r, &abi.IbUverbsWc{Status: status}, false)
		qp.Break()
		to.end(f)
	default:
		r.Packet.UDP, r.Packet.IPv4, r.Packet.IPv6 = l.udp, l.ipv4, l.udp && !l.ipv4
		f.received(to, l.k, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(b)), SrcQp: l.qpn, Slid: l.lid})
	}
}

// grhSize is the size of the header in front of a datagram.
const grhSize = 40

// header returns the 40 bytes in front of a datagram. They hold a GRH, or over Ethernet an IPv4
// header in the second half. They are zero if the datagram is addressed by LID. Only ports on
// InfiniBand have LIDs.
func header(from *Device, k *packet) []byte {
	b, to := make([]byte, grhSize), &k.w.To.AH.Attr
	if to.IsGlobal == 0 {
		return b
	}
	gids := from.gidTable()
	src := gids[min(int(to.Grh.SgidIndex), len(gids)-1)]
	if isIPv4(from, to) {
		return headerIPv4(src[12:], to.Grh.Dgid[12:], to.Grh.TrafficClass, to.Grh.HopLimit, k.udpLen())
	}
	next, size := byte(bth), uint16(0)
	if from.verbs.IsRoCE() {
		next, size = udp, k.udpLen()
	}
	return headerIPv6(src[:], to.Grh.Dgid[:], to.Grh.TrafficClass, from.flowLabel(&to.Grh), next, to.Grh.HopLimit, size)
}

// The protocols that follow an IPv6 header or GRH.
const (
	udp = 17   // of RoCE v2
	bth = 0x1b // of InfiniBand
)

// headerIPv6 returns the 40 bytes in front of a datagram in an IPv6 packet, or with a GRH, which has the same fields.
func headerIPv6(src, dst []byte, class uint8, label uint32, next, hops uint8, size uint16) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, grhSize), 6<<28|uint32(class)<<20|label)
	b = binary.BigEndian.AppendUint16(b, size)
	return slices.Concat(b, []byte{next, hops}, src, dst)
}

// flowLabelMask has the bits of a flow label.
const flowLabelMask = 1<<20 - 1

// flowLabel returns the flow label of the device's packets. Soft RoCE always sends 0. C: prepare_ipv6_hdr
func (d *Device) flowLabel(to *abi.IbUverbsGlobalRoute) uint32 {
	if d.info.softRoCE {
		return 0
	}
	return to.FlowLabel & flowLabelMask
}

// headerIPv4 returns the 40 bytes in front of a datagram in an IPv4 packet.
func headerIPv4(src, dst []byte, class, hops uint8, size uint16) []byte {
	b := make([]byte, grhSize)
	ip := b[20:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, class, hops, udp
	binary.BigEndian.PutUint16(ip[2:], 20+size)
	copy(ip[12:], src)
	copy(ip[16:], dst)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return b
}

// isIPv4 reports whether a datagram travels in an IPv4 packet.
func isIPv4(from *Device, to *abi.IbUverbsAhAttr) bool {
	return !from.verbs.IsInfiniBand() && netip.AddrFrom16(to.Grh.Dgid).Is4In6()
}

// udpLen returns the length of the UDP packet that carries a datagram over RoCE v2.
func (k *packet) udpLen() uint16 {
	n := 8 + 12 + 8 + (len(k.data)+3)&^3 + 4 // UDP, BTH, DETH, the padded data, and the invariant CRC
	if hasImm(k.w) {
		n += 4
	}
	return uint16(n)
}
