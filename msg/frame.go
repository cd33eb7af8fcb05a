package msg

import (
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
)

// frameType is the type of a frame. docs/messages.md describes each.
type frameType uint8

const (
	typeData   frameType = 1 // a message
	typeRTS    frameType = 2 // the location of a large message, for the peer to read
	typeFIN    frameType = 3 // the message that the cookie names has been read
	typeCredit frameType = 4 // only the credit limit
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

// usesCredit reports whether a frame of the type uses up a credit. FIN and CLOSE do
// not, because the sender of an RTS keeps a receive for its FIN, and both sides keep
// one for a CLOSE.
func (t frameType) usesCredit() bool { return t == typeData || t == typeRTS || t == typeCredit }

// flagReply marks a CLOSE that answers another. The program that sends it may still be
// receiving.
const flagReply = 1

// frame is the header of every message on the wire.
type frame struct {
	typ    frameType
	flags  uint8
	limit  uint16 // how many frames the receiver of this one may send in total
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

// parseFrame parses b, a whole frame. It checks everything that does not depend on the
// connection.
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

// check checks the flags and the length against those that the type allows.
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

// hello is the greeting that the two sides exchange in the private data of the
// connection.
type hello struct {
	window  uint16 // frames that the sender of the greeting has receives for
	eager   uint32 // bytes behind a frame's header that fit into one of its receives
	longest uint64 // bytes of the longest message that the sender of the greeting accepts
}

const (
	helloSize = 20
	version   = 1
)

// magic begins every greeting.
var magic = [4]byte{'g', 'v', 'm', 's'}

// ErrVersion means that the peer speaks another version of the protocol, or another
// protocol.
var ErrVersion = rdmacm.ErrOtherProtocol

func (h hello) bytes() []byte {
	b := make([]byte, helloSize)
	copy(b, magic[:])
	b[4] = version
	binary.LittleEndian.PutUint16(b[6:], h.window)
	binary.LittleEndian.PutUint32(b[8:], h.eager)
	binary.LittleEndian.PutUint64(b[12:], h.longest)
	return b
}

// parseHello parses the peer's greeting. The private data may be longer, because some
// transports pad it with zeros.
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

// rts is the payload of an RTS: the location of a large message.
type rts struct {
	addr   uint64
	length uint64
	rkey   uint32
}

const rtsSize = 24

func (r rts) put(b []byte) {
	binary.LittleEndian.PutUint64(b, r.addr)
	binary.LittleEndian.PutUint64(b[8:], r.length)
	binary.LittleEndian.PutUint32(b[16:], r.rkey)
	binary.LittleEndian.PutUint32(b[20:], 0)
}

// parseRTS parses the payload of an RTS, of rtsSize bytes. It refuses a message longer
// than most.
func parseRTS(b []byte, most int) (rts, error) {
	r := rts{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])}
	switch {
	case r.length == 0 || r.length > uint64(most):
		return r, violation("RTS of %d bytes, at most %d are allowed", r.length, most)
	case r.addr+r.length < r.addr:
		return r, violation("RTS of %d bytes at %#x", r.length, r.addr)
	case binary.LittleEndian.Uint32(b[20:]) != 0:
		return r, violation("RTS with reserved bits")
	}
	return r, nil
}

// wrid identifies a work request: its connection, its kind, its slot, and how often the
// slot was used before. So a late completion of a closed connection matches no other
// work request.
type wrid uint64

type wrKind uint8

const (
	kindRecv       wrKind = iota // slot: the receive
	kindData                     // slot: the buffer sent from
	kindUnsignaled               // the same, but it completes only if it fails
	kindControl                  // a frame without a buffer
	kindRead                     // of a large message
	kindOp                       // generation and slot: the sequence number of a one-sided operation
	kindQuietOp                  // the same, but it completes only if it fails
	kindKeepAlive
)

func newWRID(conn uint32, kind wrKind, gen uint16, slot int) wrid {
	return wrid(conn)<<32 | wrid(kind)<<28 | wrid(gen&0xfff)<<16 | wrid(uint16(slot))
}

func (w wrid) conn() uint32 { return uint32(w >> 32) }
func (w wrid) kind() wrKind { return wrKind(w >> 28 & 0xf) }
func (w wrid) gen() uint16  { return uint16(w >> 16 & 0xfff) }
func (w wrid) slot() int    { return int(uint16(w)) }
