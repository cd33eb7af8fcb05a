package fakeverbs

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

func (q *MLX5QP) isRaw() bool { return q.qp.Type == abi.IB_UVERBS_QPT_RAW_PACKET }

const (
	mlx5Checksums    = 0xc0 // of layers 3 and 4, which the device fills in
	mlx5EthHeader    = 18   // with a VLAN's tag
	mlx5EthFrameAt   = 14
	mlx5HeadersRight = 0x06 // layers 3 and 4
)

// mlx5IPv4OK are the bytes of a completion that tell of a packet of IPv4 whose checksums are right.
var mlx5IPv4OK = [2]byte{mlx5HeadersRight, 2 << 2}

// ethernet reads the segment in front of a raw packet: which checksums the device shall fill
// in, and the start of the frame where the device wants it in the request.
func (c *mlx5Reader) ethernet() {
	want := 0
	if c.q.m.k.MLX5.InlineHeaders {
		want = mlx5EthHeader
	}
	b := c.take("an Ethernet segment", (mlx5EthFrameAt+want+2)&^15)
	if n := int(binary.BigEndian.Uint16(b[12:])); n != want {
		c.note("%d bytes of the frame are in the request, and the device wants %d", n, want)
	}
	switch b[4] {
	case 0:
	case mlx5Checksums:
		c.Flags |= abi.IB_SEND_IP_CSUM
	default:
		c.note("the checksums to fill in are %#x", b[4])
	}
	c.wantZeros("an Ethernet segment", b[:4])
	c.wantZeros("an Ethernet segment", b[5:12])
	c.wantZeros("an Ethernet segment", b[mlx5EthFrameAt+want:])
	c.Front = append([]byte(nil), b[mlx5EthFrameAt:][:want]...)
}

// createFlow takes the headers that the model knows.
func (m *mlx5) createFlow(f *Flow) error {
	for _, s := range f.Specs {
		switch s.Type {
		case flowEthernet, flowIPv4, flowIPv6, flowTCP, flowUDP:
		default:
			return syscall.EOPNOTSUPP
		}
	}
	return nil
}
