package valkeyrdma

import "encoding/binary"

// commandSize is the size of all control messages, which are sent with SEND.
const commandSize = 32

// opcode is the kind of a control message.
type opcode uint16

const (
	getServerFeature opcode = iota // request of a client; the server answers with the same opcode
	setClientFeature
	keepAlive
	registerMemory // offers the receive buffer
)

// command is a control message.
type command struct {
	op       opcode
	selector uint16 // selects features
	features uint64
	buffer   offer // of registerMemory
}

// offer is a buffer that the peer may write to.
type offer struct {
	addr        uint64
	length, key uint32
}

// put encodes the message in the first 32 bytes of b. All numbers are big-endian.
func (c *command) put(b []byte) {
	clear(b[:commandSize])
	binary.BigEndian.PutUint16(b, uint16(c.op))
	if c.op == registerMemory {
		binary.BigEndian.PutUint64(b[16:], c.buffer.addr)
		binary.BigEndian.PutUint32(b[24:], c.buffer.length)
		binary.BigEndian.PutUint32(b[28:], c.buffer.key)
		return
	}
	binary.BigEndian.PutUint16(b[2:], c.selector)
	binary.BigEndian.PutUint64(b[24:], c.features)
}

// parseCommand decodes the message in b. It ignores reserved bytes, as Valkey does.
func parseCommand(b []byte) (c command, err error) {
	if len(b) != commandSize {
		return c, violation("a control message of %d bytes", len(b))
	}
	switch c.op = opcode(binary.BigEndian.Uint16(b)); c.op {
	case getServerFeature, setClientFeature:
		c.selector, c.features = binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint64(b[24:])
	case keepAlive:
	case registerMemory:
		c.buffer = offer{binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])}
		if c.buffer.length == 0 || c.buffer.addr+uint64(c.buffer.length) < c.buffer.addr {
			return c, violation("a buffer of %d bytes at %#x", c.buffer.length, c.buffer.addr)
		}
	default:
		return c, violation("a control message with opcode %d", c.op)
	}
	return c, nil
}
