package rsocket

import (
	"encoding/binary"
)

// hello is the private data that both sides exchange when they connect.
type hello struct {
	bigEndian bool   // the sender's machine is big-endian
	credits   uint16 // messages of data that the sender has receives for
	table     offer  // where the peer may write its offers; the length is in entries
	buffer    offer  // the first half of the receive buffer
	mappings  int    // entries of the table of mappings, which follows the table of offers
}

const (
	version   = 1
	helloSize = 40

	flagBigEndian = 1 << 0
	flagIOMap     = 1 << 1 // the size of the table of mappings is given
)

// tableEntries is how many entries a table of offers has.
const tableEntries = 2

func (h *hello) marshal() []byte {
	b := make([]byte, helloSize)
	b[0], b[1] = version, flagIOMap
	if h.bigEndian {
		b[1] |= flagBigEndian
	}
	binary.BigEndian.PutUint16(b[2:], h.credits)
	b[7] = uint8(h.mappings)
	h.table.put(b[8:], binary.BigEndian)
	h.buffer.put(b[24:], binary.BigEndian)
	return b
}

// parseHello parses and checks a peer's private data. InfiniBand and RoCE pad it, so more bytes are valid.
func parseHello(b []byte) (hello, error) {
	if len(b) < helloSize {
		return hello{}, violation("%d bytes of private data, want %d", len(b), helloSize)
	}
	h := hello{
		bigEndian: b[1]&flagBigEndian != 0,
		credits:   binary.BigEndian.Uint16(b[2:]),
		table:     parseOffer(b[8:], binary.BigEndian),
		buffer:    parseOffer(b[24:], binary.BigEndian),
	}
	if b[1]&flagIOMap != 0 {
		h.mappings = unscale(b[7])
	}
	switch {
	case b[0] != version:
		return hello{}, violation("version %d, want %d", b[0], version)
	case h.credits == 0:
		return hello{}, violation("no credits in the private data")
	case h.table.length < tableEntries:
		return hello{}, violation("a table for %d offers, want %d", h.table.length, tableEntries)
	}
	return h, nil
}

// unscale decodes a number of mappings. Above 128 it is encoded in units of 256.
func unscale(v uint8) int {
	if v <= mostMappings {
		return int(v)
	}
	return int(v&0x7f) << 8
}

// order returns the byte order of the machine that sent h.
func (h *hello) order() binary.ByteOrder {
	if h.bigEndian != bigEndian {
		return otherOrder
	}
	return ownOrder
}

// offer is memory that one side allows the other to write to.
type offer struct {
	addr   uint64
	key    uint32
	length uint32
}

const offerSize = 16

// put encodes an offer, key before length, as in the private data and the table of offers.
func (o offer) put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, o.addr)
	order.PutUint32(b[8:], o.key)
	order.PutUint32(b[12:], o.length)
}

func parseOffer(b []byte, order binary.ByteOrder) offer {
	return offer{order.Uint64(b), order.Uint32(b[8:]), order.Uint32(b[12:])}
}

// fit returns the part of b that one message may write to the offer. The peer chooses length, which may
// exceed an int of 32 bits.
func (o offer) fit(b []byte) []byte { return b[:min(uint64(len(b)), mostData, uint64(o.length))] }

// take removes the first n bytes from the offer and returns them as an offer. There must be n bytes.
func (o *offer) take(n int) offer {
	taken := offer{o.addr, o.key, uint32(n)}
	o.addr += uint64(n)
	o.length -= uint32(n)
	return taken
}

// ownOrder is the byte order of this machine. otherOrder is the opposite one.
var ownOrder, otherOrder binary.ByteOrder = binary.LittleEndian, binary.BigEndian

func init() {
	if bigEndian {
		ownOrder, otherOrder = otherOrder, ownOrder
	}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
