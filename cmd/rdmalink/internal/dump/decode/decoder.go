package decode

import (
	"container/list"
	"fmt"
	"maps"
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

	partial []*partial     // oldest first
	skipped map[string]int // packets by reason
}

// New returns a Decoder.
func New() *Decoder { return &Decoder{flows: make(map[flowKey]*flow), skipped: make(map[string]int)} }

// Packet reads a packet. carries is false if it is neither of RoCE nor of TCP, and so
// never part of RDMA.
func (d *Decoder) Packet(link uint32, b []byte) (all []Message, carries bool) {
	const deepest = 8 // tunnels in each other
	for range deepest {
		packet, why := network(link, b)
		if why != "" {
			d.skip(why)
			return nil, false
		}
		p, ok := ip(packet)
		if !ok {
			d.skip(reasonCut)
			return nil, false
		}
		carried := p.fragment.is && (p.proto == protoUDP || p.proto == protoTCP)
		if p.fragment.is {
			if p, ok = d.reassemble(p); !ok {
				return nil, carried
			}
		}
		switch p.proto {
		case protoIBA:
			m := roce(p, 0)
			m.Src, m.Dst = netip.AddrPortFrom(p.src, 0), netip.AddrPortFrom(p.dst, 0)
			return []Message{m}, true
		case protoTCP:
			return d.tcp(p), true
		case protoIPv4:
			link, b = LinkIPv4, p.body
		case protoIPv6:
			link, b = LinkIPv6, p.body
		case protoUDP:
			c := cursor{b: p.body}
			from, to := c.u16(), c.u16()
			switch {
			case c.short:
				d.skip(reasonCut)
				return nil, carried
			case to == PortRoCE:
				m := roce(p, udpSize)
				m.Src, m.Dst = netip.AddrPortFrom(p.src, uint16(from)), netip.AddrPortFrom(p.dst, uint16(to))
				return []Message{m}, true
			case to != portVXLAN || len(p.body) < udpSize+vxlanSize || p.body[udpSize]&8 == 0:
				d.skip("UDP to other ports than RoCE's")
				return nil, carried
			}
			link, b = LinkEthernet, p.body[udpSize+vxlanSize:]
		default:
			d.skip(fmt.Sprintf("IP protocol %d", p.proto))
			return nil, carried
		}
	}
	d.skip("too many tunnels in each other")
	return nil, false
}

const (
	udpSize   = 8
	portVXLAN = 4789
	vxlanSize = 8
)

const reasonGap = "TCP segments before which others are missing"

// mostReasons bounds the reasons that are counted apart, which have numbers from packets.
const mostReasons = 16

func (d *Decoder) skip(why string) { d.skipMany(why, 1) }

func (d *Decoder) skipMany(why string, n int) {
	if n == 0 {
		return
	}
	if _, known := d.skipped[why]; !known && len(d.skipped) >= mostReasons {
		why = "other reasons"
	}
	d.skipped[why] += n
}

// Skipped returns how many packets were skipped, by reason. Those that wait for others count too, so it is
// for the end of the capture.
func (d *Decoder) Skipped() map[string]int {
	all := maps.Clone(d.skipped)
	for _, one := range d.partial {
		all["IP fragments of incomplete datagrams"] += one.taken
	}
	for _, f := range d.flows {
		if n := len(f.early); n > 0 {
			all[reasonGap] += n
		}
		if len(f.buf) > 0 {
			all["TCP segments with the beginning of a frame that does not end"]++
		}
	}
	return all
}
