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
	case f.loses() || l.from.d.removed || !l.from.d.verbs.Up():
		return
	case l.from.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET:
		f.receiveFrames(l.from.d, l.k)
		return
	case to.AH == nil || len(l.k.data) > mtu:
		return
	}
	dgid := to.AH.Attr.Grh.Dgid
	if to.AH.Attr.IsGlobal == 0 || !isGroup(dgid) {
		if d := f.at(l.from.d, dgid, to.AH.Attr.Dlid); d != nil && f.hasPath(l.from.d, d) {
			f.receiveAt(l, d.verbs.QP(to.QPN))
		}
		return
	}
	for _, d := range f.devices {
		for _, k := range d.verbs.Openings() {
			for _, qp := range k.QueuePairs() {
				if f.hasPath(l.from.d, d) && qp.IsIn(dgid) {
					f.receiveAt(l, qp)
				}
			}
		}
	}
}

func isGroup(gid [16]byte) bool { return netip.AddrFrom16(gid).Unmap().IsMulticast() }

// ownQKey is the bit of a Q_Key that makes the device send the queue pair's own Q_Key instead.
const ownQKey = 1 << 31

// receiveAt delivers a datagram to a queue pair, or drops it if the queue pair can't accept it.
func (f *Fabric) receiveAt(l letter, qp *fakeverbs.QP) {
	if qp == nil || qp.Type != abi.IB_UVERBS_QPT_UD {
		return
	}
	a, qkey := qp.Attr(), l.k.w.To.QKey
	if qkey&ownQKey != 0 {
		qkey = l.from.qp.Attr().Qkey
	}
	if a.QpState < abi.IB_QPS_RTR || a.QpState == abi.IB_QPS_ERR || a.Qkey != qkey {
		return
	}
	to := f.pairOf(qp)
	b := append(header(l.from.d, &l.k.w.To.AH.Attr), l.k.data...)
	if r, ok := qp.PeekRecv(); !ok || len(b) > roomIn(r.SGL) {
		return // the receive stays on the queue
	}
	r := to.takeRecv()
	switch {
	case r == nil:
	case !scatter(qp, r.SGL, b):
		status, _ := to.d.rules.(roce).unfit(false)
		qp.Received(r, &abi.IbUverbsWc{Status: status}, false)
		qp.Break()
		to.end(f)
	default:
		f.received(to, l.k, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(b)), SrcQp: l.from.qp.Num, Slid: l.from.d.lid})
	}
}

// grhSize is the size of the header in front of a datagram.
const grhSize = 40

// header returns the 40 bytes in front of a datagram. They hold a GRH, or over Ethernet an IPv4
// header in the second half. They are zero if the datagram is addressed by LID. Only ports on
// InfiniBand have LIDs.
func header(from *Device, to *abi.IbUverbsAhAttr) []byte {
	b := make([]byte, grhSize)
	if to.IsGlobal == 0 {
		return b
	}
	src, dst := from.gids[min(int(to.Grh.SgidIndex), len(from.gids)-1)], netip.AddrFrom16(to.Grh.Dgid)
	if dst.Is4In6() && from.lid == 0 {
		ip := b[20:]
		ip[0], ip[1], ip[8], ip[9] = 0x45, to.Grh.TrafficClass, to.Grh.HopLimit, 17
		binary.BigEndian.PutUint16(ip[2:], 20)
		copy(ip[12:], src[12:])
		copy(ip[16:], to.Grh.Dgid[12:])
		binary.BigEndian.PutUint16(ip[10:], checksum(ip))
		return b
	}
	binary.BigEndian.PutUint32(b, 6<<28|uint32(to.Grh.TrafficClass)<<20|to.Grh.FlowLabel)
	b[6], b[7] = 0x1b, to.Grh.HopLimit
	return slices.Concat(b[:8], src[:], to.Grh.Dgid[:])
}
