package rdmatest

import (
	"encoding/binary"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// longestFrame is the length of the longest Ethernet frame: an MTU of 1500 bytes and a header
// with a VLAN tag.
const longestFrame = 18 + 1500

// Kinds of flow rules.
const (
	flowNormal = iota
	flowAllDefault
	flowMCDefault
	flowSniffer
)

// receiveFrames delivers a frame, or the frames that a TCP segment is cut into.
func (f *Fabric) receiveFrames(from *Device, k *packet) {
	if k.w.Opcode != abi.IB_UVERBS_WR_TSO {
		f.receiveFrame(from, k, k.data)
		return
	}
	for _, b := range cut(k.w.Front, k.data[len(k.w.Front):], int(k.w.MSS)) {
		f.receiveFrame(from, k, b)
	}
}

// TCP flags. Only the first packet of a segment has cwr, and only the last one has the others.
const (
	tcpFIN = 0x01
	tcpPSH = 0x08
	tcpCWR = 0x80

	tcpFlagsAt = 13
)

// cut cuts a TCP segment into packets of at most mss bytes of payload, as a NIC does. If the headers
// are not those of TCP, or not all of them, it returns none.
func cut(headers, payload []byte, mss int) (frames [][]byte) {
	if h := fakeverbs.ReadFrame(headers); h.IP == nil || h.Proto != fakeverbs.ProtoTCP || len(h.IP) < h.Inner+20 || len(h.IP) != h.Inner+int(h.IP[h.Inner+12]>>4)*4 {
		return nil
	}
	for at := 0; at < len(payload); at += mss {
		b := slices.Concat(headers, payload[at:min(at+mss, len(payload))])
		h := fakeverbs.ReadFrame(b)
		if h.IsIPv4() {
			binary.BigEndian.PutUint16(h.IP[2:], uint16(len(h.IP)))
			binary.BigEndian.PutUint16(h.IP[4:], binary.BigEndian.Uint16(h.IP[4:])+uint16(at/mss))
		} else {
			binary.BigEndian.PutUint16(h.IP[4:], uint16(len(h.IP)-h.Inner))
		}
		tcp := h.IP[h.Inner:]
		binary.BigEndian.PutUint32(tcp[4:], binary.BigEndian.Uint32(tcp[4:])+uint32(at))
		if at > 0 {
			tcp[tcpFlagsAt] &^= tcpCWR
		}
		if at+mss < len(payload) {
			tcp[tcpFlagsAt] &^= tcpFIN | tcpPSH
		}
		frames = append(frames, b)
	}
	return frames
}

// receiveFrame delivers a frame to all queue pairs whose flow rules match. The NIC is a
// switch, so the sender's device may receive the frame too.
func (f *Fabric) receiveFrame(from *Device, k *packet, b []byte) {
	if len(b) > longestFrame {
		return
	}
	fill := k.w.Flags&abi.IB_SEND_IP_CSUM != 0
	if fill {
		b = slices.Clone(b)
	}
	frame := fakeverbs.ReadFrame(b)
	checked := findChecked(frame)
	if fill {
		checked.fill()
	}
	found := fakeverbs.Packet{IPv4: frame.IsIPv4(), IPv6: frame.IP != nil && !frame.IsIPv4(),
		TCP: frame.IP != nil && frame.Proto == fakeverbs.ProtoTCP, UDP: frame.IP != nil && frame.Proto == fakeverbs.ProtoUDP}
	found.L3OK, found.L4OK = found.IPv6 || checked.ip != nil && checksum(checked.ip) == 0, checked.transportRight()
	for _, d := range f.devices {
		if !f.hasPath(from, d) {
			continue
		}
		for _, r := range d.takers(frame) {
			var ok bool
			if found.Tag, ok = r.Take(len(b)); !ok {
				continue
			}
			if to := f.taker(d, r.QP, frame); to != nil {
				f.receiveFrameAt(b, found, to)
			}
		}
	}
}

// takers returns the flow rules that receive a frame, at most one for each queue pair. They
// are the matching rules that take precedence over all others, and the matching sniffer rules.
func (d *Device) takers(frame *fakeverbs.Frame) (all []*fakeverbs.Flow) {
	var best, listening []*fakeverbs.Flow
	for _, k := range d.verbs.Openings() {
		for _, r := range k.Flows() {
			switch {
			case r.Attr.Type == flowMCDefault && !frame.Group || !r.Matches(frame):
			case r.Attr.Type == flowSniffer:
				listening = append(listening, r)
			case len(best) == 0 || goesBefore(r, best[0]):
				best = []*fakeverbs.Flow{r}
			case !goesBefore(best[0], r):
				best = append(best, r)
			}
		}
	}
	for _, r := range append(best, listening...) {
		if !slices.ContainsFunc(all, func(f *fakeverbs.Flow) bool { return f.QP == r.QP }) {
			all = append(all, r)
		}
	}
	return all
}

// taker returns the queue pair that receives a frame: qp itself, or the WQ that qp distributes
// the frame to. It returns nil if that is gone.
func (f *Fabric) taker(d *Device, qp *fakeverbs.QP, frame *fakeverbs.Frame) *pair {
	if qp.Table == nil {
		return f.pairOf(qp)
	}
	if wq := qp.Deal(frame); wq != nil {
		return &pair{d: d, qp: wq}
	}
	return nil
}

// goesBefore reports whether rule a takes precedence over b: a normal rule over a default
// rule, then the lower priority number, then the rule with more filters.
func goesBefore(a, b *fakeverbs.Flow) bool {
	if rest := b.Attr.Type != flowNormal; (a.Attr.Type != flowNormal) != rest {
		return rest
	}
	if a.Attr.Priority != b.Attr.Priority {
		return a.Attr.Priority < b.Attr.Priority
	}
	return a.Filters() > b.Filters()
}

// receiveFrameAt delivers a frame to a queue pair, or drops it if there is no receive.
func (f *Fabric) receiveFrameAt(b []byte, found fakeverbs.Packet, to *pair) {
	qp := to.qp
	if s := qp.State(); s < abi.IB_QPS_RTR || s == abi.IB_QPS_ERR {
		return
	}
	r := to.takeRecv()
	if r == nil {
		return
	}
	const tagAt, tagSize = 12, 4
	if len(b) >= tagAt+tagSize && b[tagAt] == 0x81 && b[tagAt+1] == 0 && qp.Strips() {
		found.VLAN, found.Stripped = binary.BigEndian.Uint16(b[tagAt+2:]), true
		b = slices.Concat(b[:tagAt], b[tagAt+tagSize:])
	}
	r.Packet = found
	wc := abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(b))}
	if long := len(b) > roomIn(r.SGL); long || !scatter(qp, r.SGL, b) {
		wc.Status, _ = to.d.rules.(roceRules).unfit(long)
	}
	qp.Received(r, &wc, false)
	if wc.Status != abi.IB_WC_SUCCESS {
		qp.Break()
		to.end(f)
	}
}

// sum adds the 16-bit words of b to s, as in RFC 1071. The result is not folded.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}

// checksum returns the checksum of an IPv4 header.
func checksum(ip []byte) uint16 { return fold(sum(0, ip)) }

// checked holds the parts of a frame that have a checksum.
type checked struct {
	ip     []byte // the header of IPv4, or nil
	l4     []byte // a datagram of UDP, or a segment of TCP, or nil
	at     int    // offset of the checksum in l4
	pseudo uint32 // sum of the pseudo header
}

// findChecked returns the parts of f that have a checksum. It finds no transport header in a
// fragment or in a truncated packet.
func findChecked(f *fakeverbs.Frame) (c checked) {
	switch b := f.IP; {
	case b == nil:
	case f.IsIPv4():
		c.ip = b[:f.Inner]
		fragment := binary.BigEndian.Uint16(b[6:]) & 0x3fff
		if total := int(binary.BigEndian.Uint16(b[2:])); fragment == 0 && total >= f.Inner && total <= len(b) {
			c.transport(f.Proto, b[f.Inner:total], b[12:20])
		}
	default:
		if end := f.Inner + int(binary.BigEndian.Uint16(b[4:])); end <= len(b) {
			c.transport(f.Proto, b[f.Inner:end], b[8:40])
		}
	}
	return c
}

func (c *checked) transport(proto uint8, b, addresses []byte) {
	switch {
	case proto == fakeverbs.ProtoTCP && len(b) >= 20:
		c.l4, c.at = b, 16
	case proto == fakeverbs.ProtoUDP && len(b) >= 8:
		c.l4, c.at = b, 6
	default:
		return
	}
	c.pseudo = sum(uint32(proto)+uint32(len(b)), addresses)
}

// fill computes the checksums of a frame, like a NIC with checksum offload.
func (c *checked) fill() {
	if c.ip != nil {
		clear(c.ip[10:12])
		binary.BigEndian.PutUint16(c.ip[10:], checksum(c.ip))
	}
	if c.l4 == nil {
		return
	}
	clear(c.l4[c.at:][:2])
	v := fold(sum(c.pseudo, c.l4))
	if v == 0 { // in UDP, 0 means that there is no checksum
		v = 0xffff
	}
	binary.BigEndian.PutUint16(c.l4[c.at:], v)
}

// transportRight reports whether the checksum of the transport header is correct.
func (c *checked) transportRight() bool { return c.l4 != nil && fold(sum(c.pseudo, c.l4)) == 0 }
