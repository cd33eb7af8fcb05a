package perftest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/verbs"
)

// Endpoint describes a QP to the peer.
//
// C: struct pingpong_dest
type Endpoint struct {
	LID      uint16
	OutReads uint16 // READs and atomics at once: max_dest_rd_atomic here, max_rd_atomic at the peer
	QPN      uint32 // 24 bits
	PSN      uint32 // 24 bits, of the first packet that this end sends
	RKey     uint32
	VAddr    uint64 // memory that the peer may write and read; of ib_send_bw on iWARP for credits
	GID      verbs.GID
	SRQN     uint32 // of XRC and DC only
}

// Over TCP an endpoint is text of fixed length with a NUL behind it, over a
// QP it is a C struct in network order.
const (
	plainSize  = len("0000:0000:000000:000000:00000000:0000000000000000:00000000") + 1
	gidSize    = plainSize + 16*len("00:") + 1
	structSize = 56
	markedSize = structSize + 8
)

// markedSince is the first version whose struct has the address of markers behind vaddr, for checks of the data
// (--data_validation).
const markedSince = 6.29

func (e Endpoint) append(b []byte, gid bool) []byte {
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:",
		e.LID, e.OutReads, e.QPN&0xffffff, e.PSN&0xffffff, e.RKey, e.VAddr)
	if !gid {
		return fmt.Appendf(b, "%08x\x00", e.SRQN)
	}
	for _, x := range e.GID {
		b = fmt.Appendf(b, "%02x:", x)
	}
	return fmt.Appendf(b, "%08x:\x00", e.SRQN)
}

// fieldDigits are those of the numbers before the GID.
var fieldDigits = [...]int{4, 4, 6, 6, 8, 16}

func parseEndpoint(b []byte, gid bool) (Endpoint, error) {
	want := plainSize
	if gid {
		want = gidSize
	}
	f := fields{text: b}
	var numbers [len(fieldDigits)]uint64
	for i, digits := range fieldDigits {
		numbers[i] = f.number(digits, ':')
	}
	e := Endpoint{
		LID: uint16(numbers[0]), OutReads: uint16(numbers[1]), QPN: uint32(numbers[2]), PSN: uint32(numbers[3]),
		RKey: uint32(numbers[4]), VAddr: numbers[5],
	}
	if gid {
		for i := range e.GID {
			e.GID[i] = byte(f.number(2, ':'))
		}
		e.SRQN = uint32(f.number(8, ':'))
		f.end(0)
	} else {
		e.SRQN = uint32(f.number(8, 0))
	}
	if f.bad || len(f.text) != 0 {
		return Endpoint{}, fmt.Errorf("got %.120q, want the %d bytes of a QP's address%s", b, want, withGID(gid))
	}
	return e, nil
}

func withGID(gid bool) string {
	if gid {
		return " with a GID; -x of the peer must fit"
	}
	return " without a GID; -x of the peer must fit"
}

// fields are numbers in hexadecimal with a separator behind each.
type fields struct {
	text []byte
	bad  bool
}

func (f *fields) number(digits int, separator byte) uint64 {
	if f.bad || len(f.text) <= digits {
		f.bad = true
		return 0
	}
	n, err := strconv.ParseUint(string(f.text[:digits]), 16, 64)
	f.text = f.text[digits:]
	f.end(separator)
	f.bad = f.bad || err != nil
	return n
}

func (f *fields) end(separator byte) {
	if len(f.text) == 0 || f.text[0] != separator {
		f.bad = true
		return
	}
	f.text = f.text[1:]
}

// appendStruct appends the struct, of markedSize if marked, else of structSize. It leaves the padding behind rkey and
// the address of markers zero. It sets the GID's index, which no program reads, to 0.
func (e Endpoint) appendStruct(b []byte, marked bool) []byte {
	for _, n := range []uint32{uint32(e.LID), uint32(e.OutReads), e.QPN, e.PSN, e.RKey, 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = binary.BigEndian.AppendUint64(b, e.VAddr)
	if marked {
		b = binary.BigEndian.AppendUint64(b, 0)
	}
	b = append(b, e.GID[:]...)
	b = binary.BigEndian.AppendUint32(b, e.SRQN)
	return binary.BigEndian.AppendUint32(b, 0)
}

func parseStruct(b []byte, marked bool) (Endpoint, error) {
	size := structSize
	if marked {
		size = markedSize
	}
	if len(b) != size {
		return Endpoint{}, fmt.Errorf("got %d bytes %s, want the %d of a QP's address", len(b), hex.EncodeToString(b[:min(len(b), 64)]), size)
	}
	tail := b[size-24:]
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if word(0) > 0xffff || word(1) > 0xffff || word(2) > 0xffffff || word(3) > 0xffffff {
		return Endpoint{}, fmt.Errorf("got LID %#x, outstanding reads %#x, QPN %#x, PSN %#x, of which one is too large", word(0), word(1), word(2), word(3))
	}
	e := Endpoint{
		LID: uint16(word(0)), OutReads: uint16(word(1)), QPN: word(2), PSN: word(3), RKey: word(4),
		VAddr: binary.BigEndian.Uint64(b[24:]), SRQN: binary.BigEndian.Uint32(tail[len(verbs.GID{}):]),
	}
	copy(e.GID[:], tail)
	return e, nil
}
