package rsocket

import "encoding/binary"

// mapping is an entry in the table of mappings: memory of the peer's, and the offset that
// both sides know its beginning by.
type mapping struct {
	offset uint64
	memory offer
}

const mappingSize = 8 + offerSize

func (m mapping) marshal(order binary.ByteOrder) []byte {
	b := make([]byte, mappingSize)
	order.PutUint64(b, m.offset)
	m.memory.put(b[8:], order)
	return b
}

// gotMapping takes over an entry that the peer wrote. The peer may write again at any
// time, so the entry is read once.
func (s *stream) gotMapping(i uint32) error {
	if uint64(i) >= uint64(len(s.mapped)) {
		return violation("mapping %d, there is room for %d", i, len(s.mapped))
	}
	entry := s.own.mappings[i*mappingSize:][:mappingSize]
	var b [offerSize]byte
	binary.NativeEndian.PutUint64(b[:], loadWord(entry[8:]))
	binary.NativeEndian.PutUint64(b[8:], loadWord(entry[16:]))
	s.mapped[i] = mapping{loadWord(entry), parseOffer(b[:], ownOrder)}
	return s.gotData(0)
}

// find returns what the peer has mapped from an offset on.
func (s *stream) find(offset uint64) (offer, bool) {
	for _, m := range s.mapped {
		if skip := offset - m.offset; offset >= m.offset && skip < uint64(m.memory.length) {
			return offer{m.memory.addr + skip, m.memory.key, m.memory.length - uint32(skip)}, true
		}
	}
	return offer{}, false
}

// writeAt sends as much of b to the peer's memory as may be sent now.
func (s *stream) writeAt(b []byte, offset uint64) (written int, err error) {
	for written < len(b) {
		n := 0
		if n, err = s.writeOneAt(b[written:], offset+uint64(written)); n == 0 {
			break
		}
		written += n
	}
	return written, err
}

func (s *stream) writeOneAt(b []byte, offset uint64) (int, error) {
	if err := s.unwritable(); err != nil {
		return 0, err
	}
	to, ok := s.find(offset)
	switch {
	case !ok:
		return 0, ErrNotMapped
	case s.silent || s.slots == 0:
		return 0, nil
	}
	n, ring := s.load(to.fit(b))
	if n == 0 {
		return 0, nil
	}
	s.m.to, s.m.bare = to.take(n), true
	return n, s.send(1, ring)
}

// announce writes an entry of the peer's table of mappings, if that may be sent now.
func (s *stream) announce(entry []byte, i uint64) (int, error) {
	if err := s.unwritable(); err != nil || !s.mayTell() {
		return 0, err
	}
	at := uint64(s.peer.table.length)*offerSize + i*mappingSize
	s.m = message{word: newWord(opIOMap, uint32(i)), inline: entry, to: offer{s.peer.table.addr + at, s.peer.table.key, mappingSize}}
	return mappingSize, s.tell(0)
}
