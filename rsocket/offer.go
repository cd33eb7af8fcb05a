package rsocket

import "encoding/binary"

// offer is memory that one side lets the other write to.
type offer struct {
	addr   uint64
	key    uint32
	length uint32
}

const offerSize = 16

// put writes an offer as it stands in private data and in the table of offers: key
// before length.
func (o offer) put(b []byte, order binary.ByteOrder) {
	order.PutUint64(b, o.addr)
	order.PutUint32(b[8:], o.key)
	order.PutUint32(b[12:], o.length)
}

func parseOffer(b []byte, order binary.ByteOrder) offer {
	return offer{order.Uint64(b), order.Uint32(b[8:]), order.Uint32(b[12:])}
}

// fit returns the part of b that one message may write to the offer. The peer chooses length,
// which may be more than an int of 32 bits holds.
func (o offer) fit(b []byte) []byte { return b[:min(uint64(len(b)), mostData, uint64(o.length))] }

// take uses up n bytes of the offer, which has as many, and says where they are.
func (o *offer) take(n int) offer {
	taken := offer{o.addr, o.key, uint32(n)}
	o.addr += uint64(n)
	o.length -= uint32(n)
	return taken
}

// The byte orders of this machine and of the others.
var ownOrder, otherOrder binary.ByteOrder = binary.LittleEndian, binary.BigEndian

func init() {
	if bigEndian {
		ownOrder, otherOrder = otherOrder, ownOrder
	}
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1
