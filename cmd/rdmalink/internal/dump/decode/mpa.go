package decode

import (
	"bytes"
	"encoding/binary"
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

func beginsMPA(b []byte) bool {
	return bytes.HasPrefix(b, []byte(keyRequest)) || bytes.HasPrefix(b, []byte(keyReply))
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
	size := be16(b)
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
		l.add("private", bytesOf(private))
	}
	f.opened, f.markers, f.crc = true, flags&0x80 != 0, flags&0x40 != 0
	return []Layer{l}, mpaHead + size
}
