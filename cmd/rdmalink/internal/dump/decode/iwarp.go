package decode

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// mpa is the result of the negotiation of the two directions (RFC 5044, 7.1).
type mpa struct {
	opened       bool // the request or reply was seen
	markers, crc bool // requested by this end
}

const (
	keySize    = 16
	mpaHead    = keySize + 4
	keyRequest = "MPA ID Req Frame"
	keyReply   = "MPA ID Rep Frame"
)

// beginsMPA reports whether a stream may begin with b: it has the key of a request or reply, or the first bytes
// of one.
func beginsMPA(b []byte) bool {
	n := min(len(b), keySize)
	return n > 0 && (keyRequest[:n] == string(b[:n]) || keyReply[:n] == string(b[:n]))
}

// frame decodes the next frame of the stream, of which b is available, and returns its
// length: 0 if it is incomplete. back is the other direction, if it is known.
func (f *flow) frame(b []byte, back *flow) (layers []Layer, used int) {
	switch {
	case !f.opened:
		return f.opening(b)
	case len(b) < 2:
		return nil, 0
	}
	if f.markers || back != nil && back.markers {
		f.lost = "MPA with markers is not read"
		return nil, 0
	}
	size := int(binary.BigEndian.Uint16(b))
	whole := (2+size+3)&^3 + 4
	if len(b) < whole {
		return nil, 0
	}
	fpdu := b[:whole]
	l := Layer{Name: "FPDU"}
	l.add("length", size)
	l.add("crc", f.check(back, fpdu))
	layers = append([]Layer{l}, ddp(fpdu[2:2+size])...)
	return layers, whole
}

// check compares CRC32C where the ends agreed on it: one of them asking is enough.
func (f *flow) check(back *flow, fpdu []byte) string {
	at := len(fpdu) - 4
	// The table is computed here, once: at start-up it would delay every command.
	table := crc32.MakeTable(crc32.Castagnoli)
	switch right := crc32.Checksum(fpdu[:at], table) == binary.LittleEndian.Uint32(fpdu[at:]); {
	case right:
		return "correct"
	case f.crc || back != nil && back.crc:
		return "incorrect"
	}
	return "not used"
}

// opening reads an MPA request or reply (RFC 5044, 7.1.1; RFC 6581).
func (f *flow) opening(b []byte) ([]Layer, int) {
	if len(b) > 0 && !beginsMPA(b) {
		f.other = true // its first bytes were those of a key by chance
		return nil, 0
	}
	if len(b) < mpaHead {
		return nil, 0
	}
	c := cursor{b: b[keySize:mpaHead]}
	flags, revision, size := c.u8(), c.u8(), int(c.u16())
	if len(b) < mpaHead+size {
		return nil, 0
	}
	l := Layer{Name: "MPA"}
	l.add("frame", map[bool]string{true: "request", false: "reply"}[bytes.HasPrefix(b, []byte(keyRequest))])
	l.flag("markers", flags&0x80 != 0)
	l.flag("crc", flags&0x40 != 0)
	l.flag("rejected", flags&0x20 != 0)
	enhanced := flags&0x10 != 0
	l.flag("enhanced", enhanced)
	l.add("revision", revision)
	private := b[mpaHead : mpaHead+size]
	if enhanced && revision >= 2 && size >= 4 {
		c := cursor{b: private}
		ird, ord := c.u16(), c.u16()
		l.flag("peer_to_peer", ird&0x8000 != 0)
		l.flag("rtr_empty", ird&0x4000 != 0)
		l.flag("rtr_write", ord&0x8000 != 0)
		l.flag("rtr_read", ord&0x4000 != 0)
		l.add("ird", ird&0x3fff)
		l.add("ord", ord&0x3fff)
		private = c.b
	}
	l.add("private_length", len(private))
	if len(private) > 0 {
		l.add("private", hex.EncodeToString(private))
	}
	f.opened, f.markers, f.crc = true, flags&0x80 != 0, flags&0x40 != 0
	return []Layer{l}, mpaHead + size
}

// rdmapOps are the operations of RDMAP (RFC 5040, 4.3; RFC 7306, 4).
var rdmapOps = map[byte]string{
	0: "Write", 1: "Read Request", 2: "Read Response", 3: "Send", 4: "Send with Invalidate", 5: "Send with Solicited Event",
	6: "Send with Solicited Event and Invalidate", 7: "Terminate", 8: "Immediate Data", 9: "Immediate Data with Solicited Event",
	10: "Atomic Request", 11: "Atomic Response",
}

// Operations with more than DDP's header.
const (
	opReadRequest    = 1
	opSendInv        = 4
	opSendSEInv      = 6
	opTerminate      = 7
	opAtomicRequest  = 10
	opAtomicResponse = 11
)

// ddp reads a DDP segment (RFC 5041, 4) and RDMAP's part of its header.
func ddp(b []byte) []Layer {
	if len(b) == 0 { // siw and other drivers start a connection with an empty frame
		return nil
	}
	c := cursor{b: b}
	control, rdmap := byte(c.u8()), byte(c.u8())
	op := rdmap & 15
	tagged := control&0x80 != 0
	d := Layer{Name: "DDP"}
	d.add("tagged", tagged)
	d.flag("last", control&0x40 != 0)
	d.add("version", uint64(control&3))
	r := Layer{Name: "RDMAP"}
	name, ok := rdmapOps[op]
	if !ok {
		name = fmt.Sprintf("opcode %d", op)
	}
	r.add("operation", name)
	r.add("opcode", uint64(op))
	r.add("version", uint64(rdmap>>6))
	if tagged {
		d.add("stag", Hex(c.u32()))
		d.add("to", Hex(c.u64()))
	} else {
		if stag := c.u32(); op == opSendInv || op == opSendSEInv {
			r.add("invalidate_stag", Hex(stag))
		}
		d.add("qn", c.u32())
		d.add("msn", c.u32())
		d.add("mo", c.u32())
		untagged(&r, &c, op)
	}
	if c.short {
		return []Layer{d, r, damaged("the segment ends within its headers")}
	}
	p := Layer{Name: "payload"}
	p.add("length", len(c.b))
	return []Layer{d, r, p}
}

// untagged reads the headers that some operations carry in the place of data.
func untagged(r *Layer, c *cursor, op byte) {
	switch op {
	case opReadRequest:
		r.add("sink_stag", Hex(c.u32()))
		r.add("sink_to", Hex(c.u64()))
		r.add("size", c.u32())
		r.add("source_stag", Hex(c.u32()))
		r.add("source_to", Hex(c.u64()))
	case opTerminate:
		v := c.u32()
		r.add("layer", [...]string{"RDMAP", "DDP", "MPA"}[min(v>>28, 2)])
		r.add("error_type", v>>24&15)
		r.add("error_code", Hex(v>>16&255))
	case opAtomicRequest:
		r.add("atomic", [...]string{"FetchAdd", "CmpSwap", "reserved"}[min(c.u32()>>28, 2)])
		r.add("request_id", c.u32())
		r.add("stag", Hex(c.u32()))
		r.add("to", Hex(c.u64()))
	case opAtomicResponse:
		r.add("request_id", c.u32())
		r.add("original", c.u64())
	}
}
