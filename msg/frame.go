package msg

import (
	"encoding/binary"
	"fmt"
)

// frameType says what a frame is for. docs/messages.md describes each.
type frameType uint8

const (
	typeData   frameType = 1 // a message
	typeRTS    frameType = 2 // where a large message lies, for the peer to read
	typeFIN    frameType = 3 // the message that the cookie names has been read
	typeCredit frameType = 4 // nothing but the credit limit
	typeClose  frameType = 5 // no more messages
)

func (t frameType) String() string {
	switch t {
	case typeData:
		return "DATA"
	case typeRTS:
		return "RTS"
	case typeFIN:
		return "FIN"
	case typeCredit:
		return "CREDIT"
	case typeClose:
		return "CLOSE"
	}
	return fmt.Sprintf("frame type %d", uint8(t))
}

// usesCredit tells whether a frame of the type takes one of the credits. The sender of
// an RTS keeps a receive for its FIN, and every side keeps one for a CLOSE.
func (t frameType) usesCredit() bool { return t == typeData || t == typeRTS || t == typeCredit }

// flagReply marks a CLOSE that answers one: the program that it comes from may still be
// receiving.
const flagReply = 1

// frame is the header of everything that is sent.
type frame struct {
	typ    frameType
	flags  uint8
	limit  uint16 // absolute: how many frames the receiver of this one may have sent
	length uint32 // bytes behind the header
	cookie uint64
}

const frameSize = 16

// put writes the header to the start of b.
func (f frame) put(b []byte) {
	b[0], b[1] = byte(f.typ), f.flags
	binary.LittleEndian.PutUint16(b[2:], f.limit)
	binary.LittleEndian.PutUint32(b[4:], f.length)
	binary.LittleEndian.PutUint64(b[8:], f.cookie)
}

// parseFrame reads the header of b, which is all that came. It checks what can be
// checked without knowing the connection.
func parseFrame(b []byte) (f frame, payload []byte, err error) {
	if len(b) < frameSize {
		return f, nil, violation("a frame of %d bytes", len(b))
	}
	f = frame{typ: frameType(b[0]), flags: b[1], limit: binary.LittleEndian.Uint16(b[2:]),
		length: binary.LittleEndian.Uint32(b[4:]), cookie: binary.LittleEndian.Uint64(b[8:])}
	payload = b[frameSize:]
	if uint64(f.length) != uint64(len(payload)) {
		return f, nil, violation("%v of length %d with %d bytes", f.typ, f.length, len(payload))
	}
	return f, payload, f.check()
}

// check holds each type to its own length and flags.
func (f frame) check() error {
	flags, length := uint8(0), uint32(0)
	switch f.typ {
	case typeData:
		length = f.length // any
	case typeRTS:
		length = rtsSize
	case typeFIN, typeCredit:
	case typeClose:
		flags = flagReply
	default:
		return violation("%v", f.typ)
	}
	if f.flags&^flags != 0 {
		return violation("%v with flags %#x", f.typ, f.flags)
	}
	if f.length != length {
		return violation("%v of length %d", f.typ, f.length)
	}
	return nil
}
