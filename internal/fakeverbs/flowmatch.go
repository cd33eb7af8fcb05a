package fakeverbs

import (
	"encoding/binary"
	"slices"
)

// The headers that rules are made of, as their types.
const (
	FlowEthernet = 0x20
	FlowIPv4     = 0x30
	FlowIPv6     = 0x31
	FlowTCP      = 0x40
	FlowUDP      = 0x41
)

// Frame is an Ethernet frame, with its headers laid out as filters have them.
type Frame struct {
	Group bool   // for more than one station
	IP    []byte // from the header of IPv4 or IPv6 on, or nil
	Proto uint8  // of what is behind that header,
	Inner int    // which begins there in IP

	headers map[uint32][]byte
}

const (
	etherIPv4  = 0x0800
	etherIPv6  = 0x86dd
	etherVLAN  = 0x8100
	headerIPv4 = 20
	headerIPv6 = 40
)

// The transports.
const (
	ProtoTCP = 6
	ProtoUDP = 17
)

// ReadFrame finds the headers of a frame. It does not find a header that is cut off.
func ReadFrame(b []byte) *Frame {
	f := &Frame{headers: make(map[uint32][]byte)}
	if len(b) < 14 {
		return f
	}
	f.Group = b[0]&1 != 0
	typ, tag, rest := binary.BigEndian.Uint16(b[12:]), []byte{0, 0}, b[14:]
	if typ == etherVLAN && len(rest) >= 4 {
		tag, typ, rest = rest[:2], binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	f.headers[FlowEthernet] = slices.Concat(b[:12], binary.BigEndian.AppendUint16(nil, typ), tag)
	switch {
	case typ == etherIPv4 && len(rest) >= headerIPv4 && rest[0]>>4 == 4:
		f.ipv4(rest)
	case typ == etherIPv6 && len(rest) >= headerIPv6:
		f.ipv6(rest)
	}
	if f.IP != nil {
		f.ports(f.IP[f.Inner:])
	}
	return f
}

// IsIPv4 tells which of the two f.IP is of.
func (f *Frame) IsIPv4() bool { return f.headers[FlowIPv4] != nil }

func (f *Frame) ipv4(b []byte) {
	n := int(b[0]&15) * 4
	if n < headerIPv4 || n > len(b) {
		return
	}
	f.IP, f.Proto, f.Inner = b, b[9], n
	f.headers[FlowIPv4] = slices.Concat(b[12:20], b[9:10], b[1:2], b[8:9], []byte{b[6] >> 5})
}

func (f *Frame) ipv6(b []byte) {
	f.IP, f.Proto, f.Inner = b, b[6], headerIPv6
	first := binary.BigEndian.Uint32(b)
	label := binary.BigEndian.AppendUint32(nil, first&0xfffff)
	f.headers[FlowIPv6] = slices.Concat(b[8:40], label, b[6:7], []byte{byte(first >> 20)}, b[7:8], []byte{0})
}

// ports has the destination's first.
func (f *Frame) ports(b []byte) {
	if len(b) < 4 {
		return
	}
	ports := slices.Concat(b[2:4], b[:2])
	switch f.Proto {
	case ProtoTCP:
		f.headers[FlowTCP] = ports
	case ProtoUDP:
		f.headers[FlowUDP] = ports
	}
}

// Matches tells whether a frame has all that a rule asks for.
func (r *Flow) Matches(f *Frame) bool {
	for _, s := range r.Specs {
		b := f.headers[s.Type]
		if b == nil {
			return false
		}
		for i := range min(len(b), len(s.Val)) {
			if (b[i]^s.Val[i])&s.Mask[i] != 0 {
				return false
			}
		}
	}
	return true
}
