package decode

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Protocols that IP carries. protoIBA is that of RoCE v1's header, which has the form of IPv6's.
const (
	protoHopByHop    = 0
	protoIPv4        = 4
	protoTCP         = 6
	protoUDP         = 17
	protoIBA         = 27
	protoIPv6        = 41
	protoRouting     = 43
	protoFragment    = 44
	protoDestination = 60
)

// datagram is an IP packet that is no part of another.
type datagram struct {
	src, dst netip.Addr
	proto    byte
	head     []byte // IP's header, for the ICRC
	body     []byte // as far as it was captured
	size     int    // of the whole body
	fragment fragment
}

// fragment is the place of a fragment in its datagram. Without one, it is the zero value.
type fragment struct {
	is, more bool
	id       uint32
	at       int // bytes
}

// ip reads an IP packet, and the headers between IPv6's and the transport's.
func ip(b []byte) (d datagram, ok bool) {
	if len(b) < 20 {
		return d, false
	}
	head, size := 0, 0
	switch b[0] >> 4 {
	case 4:
		head, size = 4*int(b[0]&15), int(binary.BigEndian.Uint16(b[2:]))
		if head < 20 || head > len(b) {
			return d, false
		}
		place := binary.BigEndian.Uint16(b[6:])
		d.fragment = fragment{place&0x3fff != 0, place&0x2000 != 0, uint32(binary.BigEndian.Uint16(b[4:])), 8 * int(place&0x1fff)}
		d.proto = b[9]
		d.src, d.dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	case 6:
		if len(b) < 40 {
			return d, false
		}
		head, size = 40, 40+int(binary.BigEndian.Uint16(b[4:]))
		d.proto = b[6]
		d.src, d.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return d, false
	}
	if size <= head { // a device that segments may leave the length to be filled in
		size = len(b)
	}
	d.head, d.size = b[:head], size-head
	d.body = b[head:min(size, len(b))]
	return d, b[0]>>4 == 4 || d.extensions()
}

// extensions skips the headers behind IPv6's. Behind a fragment's header they are part of the datagram.
func (d *datagram) extensions() bool {
	for !d.fragment.is {
		length := 8
		switch d.proto {
		case protoHopByHop, protoRouting, protoDestination, protoFragment:
		default:
			return true
		}
		if len(d.body) < length {
			return false
		}
		if d.proto == protoFragment {
			place := binary.BigEndian.Uint16(d.body[2:])
			d.fragment = fragment{place&^6 != 0, place&1 != 0, binary.BigEndian.Uint32(d.body[4:]), int(place &^ 7)}
		} else if length += 8 * int(d.body[1]); len(d.body) < length {
			return false
		}
		d.proto = d.body[0]
		d.body, d.size = d.body[length:], d.size-length
	}
	return true
}

// Types of links, as capture files number them.
const (
	LinkEthernet = 1
	LinkRaw      = 101 // IPv4 or IPv6
	LinkSLL      = 113 // Linux cooked
	LinkIPv4     = 228
	LinkIPv6     = 229
	LinkSLL2     = 276
)

const (
	etherIPv4   = 0x0800
	etherVLAN   = 0x8100
	etherIPv6   = 0x86dd
	etherMPLS   = 0x8847
	etherMPLS2  = 0x8848
	etherPPPoE  = 0x8864
	etherQinQ   = 0x88a8
	etherRoCE   = 0x8915 // v1
	etherQinQ91 = 0x9100
	etherQinQ92 = 0x9200
)

// KnowsLink reports whether packets of this link type are supported.
func KnowsLink(link uint32) bool {
	switch link {
	case LinkEthernet, LinkRaw, LinkSLL, LinkIPv4, LinkIPv6, LinkSLL2:
		return true
	}
	return false
}

const reasonCut = "damaged or truncated headers"

// network is the packet without the header of its link. If it has none that is read, why says so.
func network(link uint32, b []byte) (packet []byte, why string) {
	c := cursor{b: b}
	var ether uint64
	switch link {
	case LinkEthernet:
		c.take(12)
		ether = c.u16()
	case LinkSLL:
		c.take(14)
		ether = c.u16()
	case LinkSLL2:
		ether = c.u16()
		c.take(18)
	case LinkRaw, LinkIPv4, LinkIPv6:
		return b, ""
	}
	for ether == etherVLAN || ether == etherQinQ || ether == etherQinQ91 || ether == etherQinQ92 {
		c.take(2)
		ether = c.u16()
	}
	switch ether {
	case etherIPv4, etherIPv6, etherRoCE:
	case etherMPLS, etherMPLS2:
		return labelled(&c)
	case etherPPPoE:
		c.take(6)
		if protocol := c.u16(); protocol != 0x21 && protocol != 0x57 && !c.short {
			return nil, fmt.Sprintf("PPP protocol 0x%04x", protocol)
		}
	default:
		if !c.short {
			return nil, fmt.Sprintf("EtherType 0x%04x", ether)
		}
	}
	if c.short {
		return nil, reasonCut
	}
	return c.b, ""
}

// labelled is the IP packet behind MPLS labels, possibly in an Ethernet frame behind a control word.
func labelled(c *cursor) (packet []byte, why string) {
	for {
		label := c.u32()
		if c.short {
			return nil, reasonCut
		}
		if label&0x100 != 0 {
			break
		}
	}
	if len(c.b) > 4 && c.b[0]>>4 == 0 {
		return network(LinkEthernet, c.b[4:])
	}
	return c.b, ""
}
