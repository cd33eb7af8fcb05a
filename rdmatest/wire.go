package rdmatest

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ibcm"
	"github.com/goverbs/goverbs/internal/roce"
)

// Datagram is a UDP datagram with a packet of RoCE v2. Its destination port is 4791.
type Datagram struct {
	Src, Dst netip.Addr
	Member   netip.Addr // if Dst is a group and the datagram arrives: the address of the member that receives it
	SrcPort  uint16

	TrafficClass uint8  // the type of service of IPv4
	HopLimit     uint8  // the time to live of IPv4; 0: the outside chooses it
	FlowLabel    uint32 // of IPv6, 20 bits

	Payload []byte // from the BTH to the ICRC
}

// ConnectWire connects the devices whose packets of RoCE v2 are modeled, which docs/sandbox.md lists, to a network
// outside of this process. What their queue pairs send to an address that no device of the fabric has is passed to
// send. Packets that arrive must be passed to receive; those that are damaged, or that no queue pair expects, are
// dropped.
//
// The outside may be another fabric or real devices, and may lose, delay, repeat and reorder packets. RC, UC and UD queue
// pairs can reach it, without FLUSH and ATOMIC WRITE. So can IDs of the connection manager: what they exchange are the
// messages of Linux's. An address outside resolves once a connection manager there has answered. A dial needs a source
// address, such as that of [Host.Context]. The methods of the fabric that concern the network apply to the packets that it sends.
//
// send is also called with the datagrams to a multicast group. If join is not nil, it is called when a device with an address
// becomes a member of a group by rdma_cm, and when it no longer is one. If it returns an error, the program's call fails
// with it.
//
// send and join are called with locks of the fabric held. They must not block or call the fabric, and send may keep the
// payload. Receive may be called concurrently, and does not keep it. ConnectWire must be called before a device is
// opened, and only once.
func (f *Fabric) ConnectWire(send func(Datagram), join func(own, group netip.Addr, member bool) error) (receive func(Datagram)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uplink, f.joining = send, join
	for _, d := range f.devices {
		if d.onWire() {
			d.identify()
		}
	}
	return f.arrived
}

// identify gives the device a GUID and a link-local GID that no device outside has. They contain its address.
func (d *Device) identify() {
	a := d.addrs[0].As16()
	const local = 2 // the bit of addresses that nobody assigns
	id := [8]byte{local, a[11], a[12], 0xff, 0xfe, a[13], a[14], a[15]}
	d.verbs.NodeGUID = binary.NativeEndian.Uint64(id[:])
	d.gids[0] = [16]byte{0: 0xfe, 1: 0x80}
	copy(d.gids[0][8:], id[:])
	d.verbs.SetGIDs(d.gids...)
}

// onWire reports whether the device's packets can leave the fabric.
func (d *Device) onWire() bool {
	return d.fabric.uplink != nil && d.info.packets && !d.verbs.IsInfiniBand()
}

// isOutside reports whether an address is one of the network outside.
func (f *Fabric) isOutside(gid [16]byte) bool {
	a := netip.AddrFrom16(gid).Unmap()
	return !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && f.byGID(gid) == nil
}

// isRemote reports whether the queue pair is connected to one outside.
func (f *Fabric) isRemote(p *pair) bool {
	if p.remote != nil {
		return true
	}
	if !p.d.onWire() || p.qp.Type != abi.IB_UVERBS_QPT_RC && p.qp.Type != abi.IB_UVERBS_QPT_UC {
		return false
	}
	a := p.qp.Attr()
	if a.QpState < abi.IB_QPS_RTR || a.QpState == abi.IB_QPS_ERR || !f.isOutside(a.Dest.Dgid) || a.PathMtu < 1 || a.PathMtu > 5 {
		return false
	}
	p.remote = &remote{mtu: 128 << a.PathMtu, qpn: a.DestQpNum, responder: responder{expected: a.RqPsn & mask24}}
	p.remote.route = p.d.route(&abi.IbUverbsGlobalRoute{Dgid: a.Dest.Dgid, FlowLabel: a.Dest.FlowLabel, SgidIndex: a.Dest.SgidIndex, HopLimit: a.Dest.HopLimit, TrafficClass: a.Dest.TrafficClass})
	return true
}

// route returns the route from an address of the device to one outside.
func (d *Device) route(to *abi.IbUverbsGlobalRoute) roce.Route {
	gids := d.gidTable()
	src := gids[min(int(to.SgidIndex), len(gids)-1)]
	r := roce.Route{Src: netip.AddrFrom16(src).Unmap(), Dst: netip.AddrFrom16(to.Dgid).Unmap(), SrcPort: roce.Port, TrafficClass: to.TrafficClass, HopLimit: to.HopLimit}
	if r.Dst.Is6() {
		r.FlowLabel = d.flowLabel(to)
	}
	return r
}

// defaultPKey is the partition of all queue pairs.
const defaultPKey = 0xffff

// emit sends a packet to the network outside.
func (f *Fabric) emit(from *Device, route roce.Route, p *roce.Packet) {
	if f.loses() || !from.works() || !from.verbs.Up() || route.Src.Is4() != route.Dst.Is4() {
		return
	}
	g := seal(route, p)
	f.after(f.wire.latency, func() { f.uplink(g) })
}

// seal returns the datagram with a packet.
func seal(route roce.Route, p *roce.Packet) Datagram {
	p.PKey = defaultPKey
	b := route.AppendICRC(p.Append(make([]byte, 0, len(p.Payload)+64)))
	return Datagram{Src: route.Src, Dst: route.Dst, SrcPort: route.SrcPort, TrafficClass: route.TrafficClass, HopLimit: route.HopLimit, FlowLabel: route.FlowLabel, Payload: b}
}

// arrived handles a datagram from the network outside.
func (f *Fabric) arrived(g Datagram) {
	route := roce.Route{Src: g.Src.Unmap(), Dst: g.Dst.Unmap(), SrcPort: g.SrcPort, TrafficClass: g.TrafficClass, HopLimit: g.HopLimit, FlowLabel: g.FlowLabel}
	if route.Src.Is4() != route.Dst.Is4() || len(g.Payload) > roce.MostPacket {
		return
	}
	b, ok := route.Check(g.Payload)
	if !ok {
		return
	}
	pkt, err := roce.Parse(b)
	const member = 0x8000 // full members and others have the same partition
	if err != nil || pkt.PKey|member != defaultPKey {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, group := route.Dst, route.Dst.IsMulticast()
	if group {
		at = g.Member.Unmap()
	}
	d := f.owner(at)
	if d == nil || !d.onWire() || !d.works() || !d.verbs.Up() || !f.isOutside(route.Src.As16()) {
		return
	}
	if group {
		if pkt.DestQPN == everybody && pkt.Service() == roce.ServiceUD {
			f.members(d, route.Dst.As16(), func(qp *fakeverbs.QP) { f.receiveFrom(route, &pkt, qp, len(g.Payload)) })
		}
		return
	}
	if pkt.DestQPN == ibcm.QP {
		f.manager.receiveMAD(d, route, &pkt)
		return
	}
	qp := d.verbs.QP(pkt.DestQPN)
	if qp == nil {
		return
	}
	switch pkt.Service() {
	case roce.ServiceUD:
		f.receiveFrom(route, &pkt, qp, len(g.Payload))
	case roce.ServiceRC, roce.ServiceUC:
		p := f.pairOf(qp)
		if s := qp.State(); p == nil || s < abi.IB_QPS_RTR || s == abi.IB_QPS_ERR || !f.isRemote(p) || p.remote.route.Dst != route.Src || p.remote.route.Src != route.Dst || services[qp.Type] != pkt.Service() {
			return
		}
		if roce.Operations[pkt.Op()].Parts&roce.IsResponse == 0 {
			f.requested(p, &pkt)
		} else {
			f.answered(p, &pkt, time.Now())
			f.pump(p)
		}
	}
}

var services = map[uint64]byte{abi.IB_UVERBS_QPT_RC: roce.ServiceRC, abi.IB_UVERBS_QPT_UC: roce.ServiceUC}

// sendOut sends a datagram to the network outside.
func (f *Fabric) sendOut(l letter) {
	to, d := l.k.w.To, l.from.d
	p := roce.Packet{Opcode: roce.ServiceUD<<5 | roce.SendOnly, DestQPN: to.QPN, QKey: l.qkey(), SrcQPN: l.from.qp.Num,
		Solicited: l.k.w.Flags&abi.IB_SEND_SOLICITED != 0, Payload: l.k.data}
	if hasImm(l.k.w) {
		p.Opcode, p.Imm = roce.ServiceUD<<5|roce.SendOnlyImm, l.k.w.Imm
	}
	f.emit(d, d.route(&to.AH.Attr.Grh), &p)
}

// receiveFrom delivers a datagram from the network outside, whose packet has size bytes.
func (f *Fabric) receiveFrom(route roce.Route, pkt *roce.Packet, qp *fakeverbs.QP, size int) {
	k := &packet{w: &fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_SEND, Imm: pkt.Imm}, data: pkt.Payload}
	switch pkt.Op() {
	case roce.SendOnly:
	case roce.SendOnlyImm:
		k.w.Opcode = abi.IB_UVERBS_WR_SEND_WITH_IMM
	default:
		return
	}
	if pkt.Solicited {
		k.w.Flags = abi.IB_SEND_SOLICITED
	}
	a := arrival{k: k, qkey: pkt.QKey, qpn: pkt.SrcQPN, udp: true, ipv4: route.Src.Is4()}
	if a.ipv4 {
		a.header = headerIPv4(route.Src.AsSlice(), route.Dst.AsSlice(), route.TrafficClass, route.HopLimit, uint16(8+size))
	} else {
		a.header = headerIPv6(route.Src.AsSlice(), route.Dst.AsSlice(), route.TrafficClass, route.FlowLabel&flowLabelMask, udp, route.HopLimit, uint16(8+size))
	}
	f.receiveAt(a, qp)
}
