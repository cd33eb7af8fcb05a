package rdmatest

import "encoding/binary"

// sum is the sum of RFC 1071 of 16-bit words, not folded.
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

// checksum is that of a header of IPv4.
func checksum(ip []byte) uint16 { return fold(sum(0, ip)) }

// checked are the parts of a frame that have a checksum.
type checked struct {
	ip     []byte // the header of IPv4, or nil
	l4     []byte // a datagram of UDP, or a segment of TCP, or nil
	at     int    // of the checksum in l4
	pseudo uint32 // sum of the header before it that is none
}

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
)

// findChecked finds nothing in fragments, and in what is cut off.
func findChecked(frame []byte) (c checked) {
	if len(frame) < 14 {
		return c
	}
	typ, b := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	if typ == etherVLAN && len(b) >= 4 {
		typ, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	switch {
	case typ == etherIPv4 && len(b) >= 20 && b[0]>>4 == 4 && len(b) >= int(b[0]&15)*4 && b[0]&15 >= 5:
		n, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		c.ip = b[:n]
		if fragment := binary.BigEndian.Uint16(b[6:]) & 0x3fff; fragment == 0 && total >= n && total <= len(b) {
			c.transport(b[9], b[n:total], b[12:20])
		}
	case typ == etherIPv6 && len(b) >= 40:
		if n := int(binary.BigEndian.Uint16(b[4:])); 40+n <= len(b) {
			c.transport(b[6], b[40:40+n], b[8:40])
		}
	}
	return c
}

func (c *checked) transport(proto uint8, b, addresses []byte) {
	const tcp, udp = 6, 17
	switch {
	case proto == tcp && len(b) >= 20:
		c.l4, c.at = b, 16
	case proto == udp && len(b) >= 8:
		c.l4, c.at = b, 6
	default:
		return
	}
	c.pseudo = sum(uint32(proto)+uint32(len(b)), addresses)
}

// fillChecksums is what a NIC does with a frame that it was asked to.
func fillChecksums(frame []byte) {
	c := findChecked(frame)
	if c.ip != nil {
		clear(c.ip[10:12])
		binary.BigEndian.PutUint16(c.ip[10:], checksum(c.ip))
	}
	if c.l4 == nil {
		return
	}
	clear(c.l4[c.at:][:2])
	v := fold(sum(c.pseudo, c.l4))
	if v == 0 { // which in UDP says that there is none
		v = 0xffff
	}
	binary.BigEndian.PutUint16(c.l4[c.at:], v)
}

// checksumsRight tells of a packet of IPv4 whose header's and whose transport's checksum is right.
func checksumsRight(frame []byte) bool {
	c := findChecked(frame)
	return c.ip != nil && c.l4 != nil && checksum(c.ip) == 0 && fold(sum(c.pseudo, c.l4)) == 0
}
