package decode

import (
	"container/list"
	"encoding/binary"
	"net/netip"
)

// PortRoCE is the UDP port of RoCE v2.
const PortRoCE = 4791

// Decoder decodes the packets of one capture, in their order. It follows TCP connections,
// because iWARP's frames need not begin where segments do.
//
// The state that it keeps of connections is bounded, regardless of their number and
// content. It drops the connection that was silent for longest first, and reports that in
// a message.
type Decoder struct {
	flows  map[flowKey]*flow
	recent list.List // of *flow, most recently used first
	held   int       // bytes that flows hold
}

// New returns a Decoder.
func New() *Decoder { return &Decoder{flows: make(map[flowKey]*flow)} }

// Packet reads a packet. carries is false if it is neither of RoCE nor of TCP, and so
// never part of RDMA.
func (d *Decoder) Packet(link uint32, b []byte) (all []Message, carries bool) {
	p, ok := ip(network(link, b))
	if !ok {
		return nil, false
	}
	switch p.proto {
	case protoUDP:
		c := cursor{b: p.body}
		from, to := c.u16(), c.u16()
		if to != PortRoCE || c.short {
			return nil, false
		}
		m := roce(p)
		m.Src, m.Dst = netip.AddrPortFrom(p.src, uint16(from)), netip.AddrPortFrom(p.dst, uint16(to))
		return []Message{m}, true
	case protoTCP:
		return d.tcp(p), true
	}
	return nil, false
}

func be16(b []byte) int { return int(binary.BigEndian.Uint16(b)) }
