package uverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// GRH is the network header of a received message: the global route header of InfiniBand and
// RoCE v1, or the IP header of RoCE v2.
//
// C: struct ibv_grh
type GRH struct {
	SGID, DGID   verbs.GID     // sender and destination
	Type         verbs.GIDType // GIDTypeRoCEv2, or GIDTypeIB for InfiniBand and RoCE v1
	FlowLabel    uint32        // 20 bits; IPv4 has none
	TrafficClass uint8
	HopLimit     uint8 // remaining hops
}

// GRHSize is the number of bytes before the message in the receive buffer of a UD QP.
const GRHSize = 40

// ParseGRH parses the first 40 bytes of a receive buffer. They hold a header if the completion
// has WCGRH. The sender may have forged it.
func ParseGRH(b []byte) (GRH, error) {
	g, why := parseGRH(b)
	if why != "" {
		return GRH{}, &verbs.Error{Op: "read", Object: "GRH", Err: syscall.EINVAL, Hint: why}
	}
	return g, nil
}

// An IPv4 header is the second half of the 40 bytes. The first half is undefined then.
const ipv4Offset = 20

func parseGRH(b []byte) (g GRH, why string) {
	if len(b) < GRHSize {
		return g, "the GRH is the first 40 bytes of the receive buffer"
	}
	b = b[:GRHSize]
	switch ip4 := b[ipv4Offset:]; {
	case b[0]>>4 == 6 && !(ip4[0]&0xf == 5 && checksumOK(ip4)): // the second half of an IPv6 header may look like an IPv4 header
		return parseIPv6(b)
	case b[0]>>4 == 6, ip4[0]>>4 == 4:
		return parseIPv4(ip4), ""
	}
	return g, "neither an IPv6 nor an IPv4 header"
}

func parseIPv4(b []byte) GRH {
	g := GRH{Type: verbs.GIDTypeRoCEv2, TrafficClass: b[1], HopLimit: b[8]}
	for i, gid := range []*verbs.GID{&g.SGID, &g.DGID} {
		gid[10], gid[11] = 0xff, 0xff
		copy(gid[12:], b[12+4*i:])
	}
	return g
}

func parseIPv6(b []byte) (g GRH, why string) {
	const udp, ib = 17, 0x1b
	switch b[6] {
	case udp:
		g.Type = verbs.GIDTypeRoCEv2
	case ib:
		g.Type = verbs.GIDTypeIB
	default:
		return g, "the next header of the IPv6 header is neither UDP nor InfiniBand"
	}
	word := binary.BigEndian.Uint32(b)
	g.FlowLabel, g.TrafficClass, g.HopLimit = word&0xfffff, uint8(word>>20), b[7]
	copy(g.SGID[:], b[8:])
	copy(g.DGID[:], b[24:])
	return g, ""
}

// checksumOK reports whether 20 bytes have the checksum of an IPv4 header.
func checksumOK(b []byte) bool {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum == 0xffff
}
