package decode

import (
	"encoding/binary"
	"net/netip"
)

const (
	protoTCP = 6
	protoUDP = 17
)

// datagram is an IP packet that is no part of another.
type datagram struct {
	src, dst netip.Addr
	proto    byte
	head     []byte // IP's header, for the ICRC
	body     []byte // as far as it was captured
	size     int    // of the whole body
}

// ip reads an IP packet. Fragments, and headers between IPv6's and the transport's, are
// not read: RoCE has none, and TCP avoids them.
func ip(b []byte) (d datagram, ok bool) {
	if len(b) < 20 {
		return d, false
	}
	head, size := 0, 0
	switch b[0] >> 4 {
	case 4:
		head, size = 4*int(b[0]&15), int(binary.BigEndian.Uint16(b[2:]))
		if fragment := binary.BigEndian.Uint16(b[6:]) & 0x3fff; fragment != 0 || head < 20 || head > len(b) {
			return d, false
		}
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
	return d, true
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
	etherIPv4 = 0x0800
	etherVLAN = 0x8100
	etherIPv6 = 0x86dd
	etherQinQ = 0x88a8
)

// KnowsLink reports whether packets of this link type are supported.
func KnowsLink(link uint32) bool {
	switch link {
	case LinkEthernet, LinkRaw, LinkSLL, LinkIPv4, LinkIPv6, LinkSLL2:
		return true
	}
	return false
}

// network is the packet without the header of its link.
func network(link uint32, b []byte) []byte {
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
		return b
	}
	for ether == etherVLAN || ether == etherQinQ {
		c.take(2)
		ether = c.u16()
	}
	if c.short || ether != etherIPv4 && ether != etherIPv6 {
		return nil
	}
	return c.b
}
