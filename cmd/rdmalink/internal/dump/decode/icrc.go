package decode

import (
	"encoding/binary"
	"hash/crc32"
)

const icrcSize = 4

// checkICRC computes the invariant CRC of a whole RoCE v2 packet. Fields that routers
// change count as all ones, as do 8 bytes in the place of InfiniBand's own header
// (IBA specification, annex A17.3.3).
func checkICRC(p datagram) string {
	at := len(p.body) - icrcSize
	if at < 8+12 {
		return "too short for one"
	}
	head := append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, p.head...)
	ip := head[8:]
	if ip[0]>>4 == 4 {
		ip[1], ip[8], ip[10], ip[11] = 255, 255, 255, 255 // TOS, TTL, checksum
	} else {
		ip[0], ip[1], ip[2], ip[3], ip[7] = ip[0]|15, 255, 255, 255, 255 // class, flow label, hop limit
	}
	transport := append([]byte(nil), p.body[:at]...)
	transport[6], transport[7] = 255, 255 // UDP's checksum
	transport[8+4] = 255                  // FECN, BECN and reserved bits
	sum := crc32.Update(crc32.ChecksumIEEE(head), crc32.IEEETable, transport)
	if sum != binary.LittleEndian.Uint32(p.body[at:]) {
		return "incorrect"
	}
	return "correct"
}
