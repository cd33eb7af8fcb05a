package capture

import (
	"encoding/binary"
	"io"
	"math"
	"math/bits"
	"time"
)

// Types of blocks.
const (
	blockSection   = 0x0a0d0d0a // the same in either byte order
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

const byteOrderMagic = 0x1a2b3c4d

// port is an interface that a section describes.
type port struct {
	link, snap uint32
	second     uint64 // time stamps a second
}

type pcapng struct {
	in    io.Reader
	order binary.ByteOrder
	ports []port
	buf   []byte
}

func (p *pcapng) Next() (Record, error) {
	for {
		kind, body, err := p.block()
		if err != nil {
			return Record{}, err
		}
		switch kind {
		case blockInterface:
			err = p.describe(body)
		case blockEnhanced, blockSimple, blockPacket:
			return p.packet(kind, body)
		}
		if err != nil {
			return Record{}, err
		}
	}
}

// block reads the next block. A section may change the order of bytes.
func (p *pcapng) block() (kind uint32, body []byte, err error) {
	var head [12]byte
	if _, err := io.ReadFull(p.in, head[:1]); err != nil {
		return 0, nil, err
	}
	if err := whole(p.in, head[1:]); err != nil {
		return 0, nil, err
	}
	if binary.LittleEndian.Uint32(head[:]) == blockSection {
		p.ports = nil
		switch uint32(byteOrderMagic) {
		case binary.LittleEndian.Uint32(head[8:]):
			p.order = binary.LittleEndian
		case binary.BigEndian.Uint32(head[8:]):
			p.order = binary.BigEndian
		default:
			return 0, nil, errCorrupt
		}
	}
	if p.order == nil {
		return 0, nil, errCorrupt
	}
	size := p.order.Uint32(head[4:])
	if size > Longest+1024 {
		return 0, nil, errLong
	}
	if size < 12 || size%4 != 0 {
		return 0, nil, errCorrupt
	}
	p.buf = append(append(p.buf[:0], head[8:]...), make([]byte, size-12)...)
	if err := whole(p.in, p.buf[4:]); err != nil {
		return 0, nil, err
	}
	return p.order.Uint32(head[:]), p.buf[:size-12], nil // without the length that is repeated
}

// describe takes down an interface.
func (p *pcapng) describe(body []byte) error {
	if len(body) < 8 || len(p.ports) >= math.MaxUint16 {
		return errCorrupt
	}
	one := port{uint32(p.order.Uint16(body)), p.order.Uint32(body[4:]), 1e6}
	const endOfOptions, resolution = 0, 9
	for options := body[8:]; len(options) >= 4; {
		code, size := p.order.Uint16(options), int(p.order.Uint16(options[2:]))
		padded := 4 + (size+3)&^3
		if code == endOfOptions || padded > len(options) {
			break
		}
		if code == resolution && size == 1 {
			one.second = perSecond(options[4])
		}
		options = options[padded:]
	}
	p.ports = append(p.ports, one)
	return nil
}

// perSecond is the resolution of time stamps: a power of 10, or of 2 with the top bit.
func perSecond(exponent byte) uint64 {
	base, n := uint64(10), uint64(1)
	if exponent&0x80 != 0 {
		base = 2
	}
	for range exponent & 0x7f {
		if high, low := bits.Mul64(n, base); high == 0 {
			n = low
		}
	}
	return n
}

func (p *pcapng) packet(kind uint32, body []byte) (Record, error) {
	r, index, size := Record{}, uint32(0), uint32(0)
	var stamp uint64
	switch {
	case kind == blockSimple && len(body) >= 4:
		r.Full = int(p.order.Uint32(body))
		body = body[4:]
		size = min(uint32(r.Full), uint32(len(body)))
	case kind != blockSimple && len(body) >= 20:
		index = p.order.Uint32(body)
		if kind == blockPacket { // a count of dropped packets follows the number of the interface
			index = uint32(p.order.Uint16(body))
		}
		stamp = uint64(p.order.Uint32(body[4:]))<<32 | uint64(p.order.Uint32(body[8:]))
		size, r.Full = p.order.Uint32(body[12:]), int(p.order.Uint32(body[16:]))
		body = body[20:]
	default:
		return r, errCorrupt
	}
	if uint64(index) >= uint64(len(p.ports)) || uint64(size) > uint64(len(body)) {
		return r, errCorrupt
	}
	one := p.ports[index]
	if kind == blockSimple && one.snap != 0 {
		size = min(size, one.snap)
	}
	r.Link, r.Data = one.link, body[:size]
	high, low := bits.Mul64(stamp%one.second, 1e9)
	nanos, _ := bits.Div64(high, low, one.second)
	r.Time = time.Unix(int64(stamp/one.second), int64(nanos))
	return r, nil
}
