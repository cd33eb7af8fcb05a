package rsocket

import "encoding/binary"

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
