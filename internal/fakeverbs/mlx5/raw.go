package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

func (q *QP) isRaw() bool { return q.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET }

const (
	checksums    = 0xc0 // of layers 3 and 4, which the device fills in
	ethHeader    = 18   // with a VLAN's tag
	ethFrameAt   = 14
	headersRight = 0x06 // layers 3 and 4
)

// ipv4OK are the bytes of a completion that tell of a packet of IPv4 whose checksums are right.
var ipv4OK = [2]byte{headersRight, 2 << 2}

// ethernet reads the segment in front of a raw packet: which checksums the device shall fill
// in, and the start of the frame where the device wants it in the request.
func (c *reader) ethernet() {
	want := 0
	if c.q.m.options.InlineHeaders {
		want = ethHeader
	}
	b := c.take("an Ethernet segment", (ethFrameAt+want+2)&^15)
	if n := int(binary.BigEndian.Uint16(b[12:])); n != want {
		c.note("%d bytes of the frame are in the request, and the device wants %d", n, want)
	}
	switch b[4] {
	case 0:
	case checksums:
		c.Flags |= abi.IB_SEND_IP_CSUM
	default:
		c.note("the checksums to fill in are %#x", b[4])
	}
	c.wantZeros("an Ethernet segment", b[:4])
	c.wantZeros("an Ethernet segment", b[5:12])
	c.wantZeros("an Ethernet segment", b[ethFrameAt+want:])
	c.Front = append([]byte(nil), b[ethFrameAt:][:want]...)
}

// CreateFlow takes the headers that the model knows.
func (m *model) CreateFlow(f *fakeverbs.Flow) error {
	for _, s := range f.Specs {
		switch s.Type {
		case fakeverbs.FlowEthernet, fakeverbs.FlowIPv4, fakeverbs.FlowIPv6, fakeverbs.FlowTCP, fakeverbs.FlowUDP:
		default:
			return syscall.EOPNOTSUPP
		}
	}
	return nil
}
