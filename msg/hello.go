package msg

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// hello is what the two sides tell each other in the private data of the connection.
type hello struct {
	window  uint16 // frames that the sender of the hello has receives for
	eager   uint32 // bytes behind a frame's header that fit into one of its receives
	longest uint64 // bytes of the longest message that it takes
}

const (
	helloSize = 20
	version   = 1
)

var magic = [4]byte{'g', 'v', 'm', 's'}

// ErrVersion means that the peer speaks another version of the protocol, or another
// protocol.
var ErrVersion = errors.New("the peer speaks another protocol")

func (h hello) bytes() []byte {
	b := make([]byte, helloSize)
	copy(b, magic[:])
	b[4] = version
	binary.LittleEndian.PutUint16(b[6:], h.window)
	binary.LittleEndian.PutUint32(b[8:], h.eager)
	binary.LittleEndian.PutUint64(b[12:], h.longest)
	return b
}

// parseHello reads the peer's. The private data may be longer, because transports fill
// it up with zeros.
func parseHello(b []byte) (h hello, err error) {
	if len(b) < helloSize || [4]byte(b) != magic {
		return h, fmt.Errorf("%w: no greeting", ErrVersion)
	}
	if b[4] != version {
		return h, fmt.Errorf("%w: version %d, not %d", ErrVersion, b[4], version)
	}
	h = hello{binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[12:])}
	if h.window < minWindow || h.window > maxWindow || h.eager < minEager || h.eager > maxEager || h.longest < uint64(h.eager) || h.longest > maxLongest {
		return h, violation("greeting with window %d, eager size %d, longest message %d", h.window, h.eager, h.longest)
	}
	return h, nil
}
