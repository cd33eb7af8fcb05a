package rsocket

// refund is what the completion of messages gives back: bytes of the send buffer, slots for
// data and slots for words. It is the number of a work request. Those of several messages
// add up.
type refund uint64

func newRefund(ring, slots, spare int) refund {
	return refund(ring)<<32 | refund(slots)<<8 | refund(spare)
}

func (r refund) ring() int  { return int(r >> 32) }
func (r refund) slots() int { return int(r >> 8 & 0xffffff) }
func (r refund) spare() int { return int(r & 0xff) }

// within tells whether neither the bytes nor the slots are more than most's.
func (r refund) within(most refund) bool { return r.ring() <= most.ring() && r.slots() <= most.slots() }
