package rsocket

import (
	"encoding/binary"
)

// receiver manages the receive buffer. Its halves are offered in turn. Positions count bytes since the start
// of the connection. A position modulo the size of the buffer is an index.
type receiver struct {
	half    int
	offered uint64
	filled  uint64 // by the peer
	read    uint64 // by the program

	credits uint16 // messages that may be unread
	lengths []uint32
	first   int    // index into lengths
	unread  uint16 // messages
	seq     uint16 // messages read
	sent    uint16 // the last limit sent to the peer
	offers  uint64 // offers sent by messages, without the one in the hello
}

func newReceiver(size int, credits uint16) receiver {
	half := size / 2
	return receiver{half: half, offered: uint64(half), credits: credits, sent: credits, lengths: make([]uint32, credits)}
}

func (r *receiver) buffered() int { return int(r.filled - r.read) }

// place returns the index of a position in the buffer.
func (r *receiver) place(position uint64) int { return int(position % uint64(2*r.half)) }

// arrived accounts for a message of n bytes, which must be within the offer and the credits. An empty message
// counts as read once all messages before it have been read.
func (r *receiver) arrived(n uint32) error {
	rest := min(r.offered-r.filled, uint64(r.half)-r.filled%uint64(r.half))
	switch {
	case uint64(n) > rest:
		return violation("a message of %d bytes, but %d bytes are left of the offer", n, rest)
	case r.seq+r.unread == r.sent:
		return violation("a message beyond the credits")
	}
	r.lengths[(r.first+int(r.unread))%len(r.lengths)] = n
	r.unread++
	r.filled += uint64(n)
	r.take(0)
	return nil
}

// take accounts for n bytes that the program has read.
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

// owesOffer reports whether the next half has been read, so it can be offered.
func (r *receiver) owesOffer() bool { return r.offered-r.read <= uint64(r.half) }

// owes reports whether the peer should get an offer or credits.
func (r *receiver) owes() bool {
	return r.owesOffer() || r.seq+r.credits-r.sent >= max(r.credits/2, 1)
}

// limit returns the credit limit, for a message to the peer.
func (r *receiver) limit() uint16 {
	r.sent = r.seq + r.credits
	return r.sent
}

// offer records that the next half is offered. It returns the offset of the half and the number of the
// offer.
func (r *receiver) offer() (off int, number uint64) {
	off = r.place(r.offered)
	r.offered += uint64(r.half)
	r.offers++
	return off, r.offers
}

// table is the memory that the peer writes its offers to, in this machine's byte order. The peer may write at
// any time. An entry is therefore read only after a word has announced it, and only once. It is emptied
// before this side sends the data that allows the peer to fill it again.
type table []byte

// take copies and empties an entry. An entry of length 0 is not an offer.
func (t table) take(i int) (offer, bool) {
	entry := t[i*offerSize:][:offerSize]
	// The length is written last, because memory is filled in ascending order.
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

// window limits the messages of data that may be sent. limit and seq have 16 bits and wrap.
type window struct {
	most  uint16 // credits in the peer's hello
	spare uint16 // credits that stay unused
	seq   uint16 // messages sent
	limit uint16 // seq must not exceed it
}

// iwarpSpare is how many credits stay unused on iWARP, for words without data. librdmacm's receive queue has
// only as many entries as it gives credits, and is refilled only when its program polls. On iWARP, a word
// that arrives while the queue is empty ends the connection. On other transports it is sent again.
const iwarpSpare = 8

func newWindow(credits uint16, iwarp bool) window {
	w := window{most: credits, limit: credits}
	if iwarp {
		w.spare = min(iwarpSpare, credits/2)
	}
	return w
}

func (w *window) open() bool { return w.limit-w.seq > w.spare }

// raise sets a new limit. It must not be below the last one, nor allow more messages than the peer has
// receives for.
func (w *window) raise(limit uint16) error {
	left := limit - w.seq
	if left > w.most || left < w.limit-w.seq {
		return violation("credit limit %d after %d, with %d messages sent and %d credits", limit, w.limit, w.seq, w.most)
	}
	w.limit = limit
	return nil
}
