package rsocket

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
