package fakeverbs

import (
	"encoding/binary"
	"slices"
)

// The headers that rules are made of, as their types.
const (
	flowEthernet = 0x20
	flowIPv4     = 0x30
	flowIPv6     = 0x31
	flowTCP      = 0x40
	flowUDP      = 0x41
)

// Frame is an Ethernet frame, with its headers laid out as filters have them.
type Frame struct {
	headers map[uint32][]byte
	Group   bool // for more than one station
}

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	protoTCP  = 6
	protoUDP  = 17
)

// ReadFrame finds the headers of a frame. What is cut off has none.
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
	f.headers[flowEthernet] = slices.Concat(b[:12], binary.BigEndian.AppendUint16(nil, typ), tag)
	switch {
	case typ == etherIPv4 && len(rest) >= 20 && rest[0]>>4 == 4 && len(rest) >= int(rest[0]&15)*4:
		f.headers[flowIPv4] = slices.Concat(rest[12:20], rest[9:10], rest[1:2], rest[8:9], []byte{rest[6] >> 5})
		f.ports(rest[9], rest[int(rest[0]&15)*4:])
	case typ == etherIPv6 && len(rest) >= 40:
		first := binary.BigEndian.Uint32(rest)
		label := binary.BigEndian.AppendUint32(nil, first&0xfffff)
		f.headers[flowIPv6] = slices.Concat(rest[8:40], label, rest[6:7], []byte{byte(first >> 20)}, rest[7:8], []byte{0})
		f.ports(rest[6], rest[40:])
	}
	return f
}

// ports has the destination's first.
func (f *Frame) ports(proto uint8, b []byte) {
	if len(b) < 4 {
		return
	}
	ports := slices.Concat(b[2:4], b[:2])
	switch proto {
	case protoTCP:
		f.headers[flowTCP] = ports
	case protoUDP:
		f.headers[flowUDP] = ports
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
