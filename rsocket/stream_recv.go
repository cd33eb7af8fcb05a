package rsocket

import (
	"encoding/binary"
)

// receiver keeps account of the receive buffer. The buffer is offered in halves, in
// turn. Positions count bytes since the start; modulo the size they are places.
type receiver struct {
	half    int
	offered uint64
	filled  uint64 // by the peer
	read    uint64 // by the program

	credits uint16 // messages that may be unread
	lengths []uint32
	first   int    // of lengths
	unread  uint16 // messages
	seq     uint16 // messages read
	told    uint16 // the limit that the peer knows
	offers  uint64 // made by messages, that is without the one in the hello
}

func newReceiver(size int, credits uint16) receiver {
	half := size / 2
	return receiver{half: half, offered: uint64(half), credits: credits, told: credits, lengths: make([]uint32, credits)}
}

func (r *receiver) buffered() int { return int(r.filled - r.read) }

// place is where a position lies in the buffer.
func (r *receiver) place(position uint64) int { return int(position % uint64(2*r.half)) }

// arrived takes note of a message of n bytes, which must be what the peer was let send. A
// message of none has been read when all before it has.
func (r *receiver) arrived(n uint32) error {
	rest := min(r.offered-r.filled, uint64(r.half)-r.filled%uint64(r.half))
	switch {
	case uint64(n) > rest:
		return violation("a message of %d bytes, the rest of the offer is %d", n, rest)
	case r.seq+r.unread == r.told:
		return violation("a message beyond the credits")
	}
	r.lengths[(r.first+int(r.unread))%len(r.lengths)] = n
	r.unread++
	r.filled += uint64(n)
	r.take(0)
	return nil
}

// take is the program's reading of n bytes, which are there.
func (r *receiver) take(n int) {
	r.read += uint64(n)
	for r.unread > 0 {
		length := &r.lengths[r.first]
		if uint32(n) < *length {
			*length -= uint32(n)
			return
		}
		n -= int(*length)
		r.first = (r.first + 1) % len(r.lengths)
		r.unread--
		r.seq++
	}
}

// owesOffer tells that the half which is next has been read.
func (r *receiver) owesOffer() bool { return r.offered-r.read <= uint64(r.half) }

// owes tells that the peer should be told of room.
func (r *receiver) owes() bool {
	return r.owesOffer() || r.seq+r.credits-r.told >= max(r.credits/2, 1)
}

// limit is the limit to tell the peer, which then knows it.
func (r *receiver) limit() uint16 {
	r.told = r.seq + r.credits
	return r.told
}

// offer makes the next half an offer: where it begins, and the number of this offer.
func (r *receiver) offer() (off int, number uint64) {
	off = r.place(r.offered)
	r.offered += uint64(r.half)
	r.offers++
	return off, r.offers
}

// table is the memory that the peer writes its offers to, in this machine's byte
// order. The peer may write at any time, so an entry is looked at only when a word
// told that something may be there, copied once, and emptied before the data goes out
// after which the peer may fill it again.
type table []byte

// take copies and empties an entry. An entry without bytes is no offer.
func (t table) take(i int) (offer, bool) {
	entry := t[i*offerSize:][:offerSize]
	// The length last written decides: memory is filled in ascending order.
	keyLength := loadWord(entry[8:])
	addr := loadWord(entry)
	var b [offerSize]byte
	binary.NativeEndian.PutUint64(b[:], addr)
	binary.NativeEndian.PutUint64(b[8:], keyLength)
	o := parseOffer(b[:], ownOrder)
	if o.length == 0 {
		return o, false
	}
	storeWord(entry[8:], 0)
	return o, true
}

// window is how many messages of data may be sent. Limit and count have 16 bits and
// wrap.
type window struct {
	most  uint16 // credits that the peer gave in its hello
	spare uint16 // credits that are left unused
	seq   uint16 // messages sent
	limit uint16 // as many may be sent
}

// iwarpSpare leaves entries of the peer's receive queue to words without data. The
// queue of librdmacm has as many entries as it gives credits, and is refilled only when
// its program polls. On iWARP a word that finds it empty ends the connection; elsewhere
// it is sent again.
const iwarpSpare = 8

func newWindow(credits uint16, iwarp bool) window {
	w := window{most: credits, limit: credits}
	if iwarp {
		w.spare = min(iwarpSpare, credits/2)
	}
	return w
}

func (w *window) open() bool { return w.limit-w.seq > w.spare }

// raise takes a new limit, which may not be below the last one nor leave the peer more
// to receive than it has receives for.
func (w *window) raise(limit uint16) error {
	left := limit - w.seq
	if left > w.most || left < w.limit-w.seq {
		return violation("credit limit %d after %d, with %d messages sent and %d credits", limit, w.limit, w.seq, w.most)
	}
	w.limit = limit
	return nil
}
