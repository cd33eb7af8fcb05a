package roce

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// ICRCSize is the size of the invariant CRC at the end of a packet, in bytes.
const ICRCSize = 4

// ICRC returns the invariant CRC of a packet, whose IP header is head. The packet begins with udp bytes of a UDP
// header, 0 with RoCE v1, and is without ICRC. Fields that routers change count as all ones, as do 8 bytes in the place
// of InfiniBand's own header (IBA specification, annex A17.3.3).
func ICRC(head, packet []byte, udp int) uint32 {
	masked := make([]byte, 0, 8+60+udpSize+bthSize)
	masked = append(masked, 255, 255, 255, 255, 255, 255, 255, 255)
	masked = append(masked, head...)
	if ip := masked[8:]; ip[0]>>4 == 4 {
		ip[1], ip[8], ip[10], ip[11] = 255, 255, 255, 255 // TOS, TTL, checksum
	} else {
		ip[0], ip[1], ip[2], ip[3], ip[7] = ip[0]|15, 255, 255, 255, 255 // class, flow label, hop limit
	}
	at := len(masked)
	masked = append(masked, packet[:udp+bthSize]...)
	if udp > 0 {
		masked[at+6], masked[at+7] = 255, 255 // UDP's checksum
	}
	masked[at+udp+4] = 255 // FECN, BECN and reserved bits
	return crc32.Update(crc32.ChecksumIEEE(masked), crc32.IEEETable, packet[udp+bthSize:])
}

const udpSize = 8

// Route is how a packet gets from one address to another.
type Route struct {
	Src, Dst netip.Addr
	SrcPort  uint16

	// Routers may change these fields of the IP header, so the ICRC does not cover them.
	TrafficClass uint8
	HopLimit     uint8
	FlowLabel    uint32 // of IPv6
}

// headers returns the headers of IP and UDP of a packet with size bytes from its BTH to its ICRC, as Linux sends it
// from a socket that does not fragment: with identification 0.
func (r *Route) headers(size int, fragments uint16) (ip, udp []byte) {
	udp = binary.BigEndian.AppendUint16(nil, r.SrcPort)
	udp = binary.BigEndian.AppendUint16(udp, Port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpSize+size))
	udp = append(udp, 0, 0)
	if r.Dst.Is4() {
		ip = append(make([]byte, 0, 20), 0x45, 0)
		ip = binary.BigEndian.AppendUint16(ip, uint16(20+udpSize+size))
		ip = append(ip, 0, 0)
		ip = binary.BigEndian.AppendUint16(ip, fragments)
		ip = append(ip, 0, 17, 0, 0)
	} else {
		ip = append(make([]byte, 0, 40), 0x60, 0, 0, 0)
		ip = binary.BigEndian.AppendUint16(ip, uint16(udpSize+size))
		ip = append(ip, 17, 0)
	}
	ip = append(ip, r.Src.AsSlice()...)
	return append(ip, r.Dst.AsSlice()...), udp
}

const dontFragment = 0x4000

// AppendICRC appends its ICRC to a packet, which begins with the BTH.
func (r *Route) AppendICRC(packet []byte) []byte {
	return binary.LittleEndian.AppendUint32(packet, r.icrc(packet, dontFragment))
}

func (r *Route) icrc(packet []byte, fragments uint16) uint32 {
	ip, udp := r.headers(len(packet)+ICRCSize, fragments)
	return ICRC(ip, append(udp, packet...), udpSize)
}

// Check returns a received packet without its ICRC. It reports whether that was correct. A socket does not show the
// identification of an IPv4 packet, which the ICRC covers, so every one is taken for correct: what remains is a check
// of 16 bits.
func (r *Route) Check(packet []byte) ([]byte, bool) {
	n := len(packet) - ICRCSize
	if n < bthSize {
		return nil, false
	}
	got := binary.LittleEndian.Uint32(packet[n:])
	packet = packet[:n]
	for _, fragments := range []uint16{dontFragment, 0} {
		diff := r.icrc(packet, fragments) ^ got
		if diff == 0 {
			return packet, true
		}
		if !r.Dst.Is4() {
			return packet, false
		}
		// The CRC is linear: take back what followed the identification, which stands at byte 4 of 20.
		for range 20 - 4 + udpSize + n {
			diff = diff<<8 ^ backwards[diff>>24]
		}
		if diff <= 0xffff {
			return packet, true
		}
	}
	return packet, false
}

// backwards undoes a step of the CRC with a zero byte, by the upper byte after it.
var backwards = func() (t [256]uint32) {
	for i, v := range crc32.IEEETable {
		t[v>>24] = v<<8 ^ uint32(i)
	}
	return t
}()
