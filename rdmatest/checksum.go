package rdmatest

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

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

// findChecked finds no transport in a fragment, nor in a packet that is cut off.
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

// fill is what a NIC does with a frame that it was asked to.
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
	if v == 0 { // which in UDP says that there is none
		v = 0xffff
	}
	binary.BigEndian.PutUint16(c.l4[c.at:], v)
}

// right tells of a packet of IPv4 whose header's and whose transport's checksum is right.
func (c *checked) right() bool {
	return c.ip != nil && c.l4 != nil && checksum(c.ip) == 0 && fold(sum(c.pseudo, c.l4)) == 0
}
