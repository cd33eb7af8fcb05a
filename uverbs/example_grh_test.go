package uverbs_test

import (
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A datagram's way stands in front of it in the receive buffer. This one came over RoCE v2
// and IPv4, whose header fills the second half of the 40 bytes.
func ExampleParseGRH() {
	buffer := make([]byte, uverbs.GRHSize)
	ip := buffer[20:]
	ip[0], ip[8] = 0x45, 63 // version and length; hops that are left
	copy(ip[12:], []byte{192, 0, 2, 1})
	copy(ip[16:], []byte{192, 0, 2, 2})
	ip[10], ip[11] = checksum(ip[:20])
	grh, err := uverbs.ParseGRH(buffer)
	if err != nil {
		panic(err)
	}
	fmt.Println(grh.SGID, grh.DGID, grh.HopLimit)
	// Output: ::ffff:192.0.2.1 ::ffff:192.0.2.2 63
}

// The GID of a port with an IPv4 address.
func Example_gidFromAddr() {
	fmt.Println(verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")))
	// Output: ::ffff:192.0.2.1
}

func checksum(header []byte) (high, low byte) {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(header[i])<<8 | uint32(header[i+1])
	}
	sum = sum&0xffff + sum>>16
	sum = ^(sum&0xffff + sum>>16)
	return byte(sum >> 8), byte(sum)
}
