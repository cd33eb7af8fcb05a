package rsocket

import (
	"math"
	"testing"
)

// TestLargeOffers: a peer may offer and map more than an int of 32 bits holds, and have a
// table of as many entries. Run it with GOARCH=386.
func TestLargeOffers(t *testing.T) {
	for _, length := range []uint32{1 << 31, math.MaxUint32} {
		s, l := testStream(false)
		s.to.length, s.peer.table.length = length, length
		if n, err := s.write(make([]byte, 100)); n != 100 || err != nil || s.to.length != length-100 {
			t.Errorf("a write to %d bytes: %d, %v", length, n, err)
		}
		s.mapped[0] = mapping{0, offer{0, 7, length}}
		if n, err := s.writeAt(make([]byte, 100), 1<<30); n != 100 || err != nil || l.last.to.addr != 1<<30 {
			t.Errorf("a write to a mapping of %d bytes: %d, %v, at %#x", length, n, err, l.last.to.addr)
		}
		// The number of an offer may be as large.
		s.in.offers = 1<<31 - 1
		s.settle()
		if want := s.peer.table.addr + 1<<31%uint64(length)*offerSize; l.last.to.addr != want {
			t.Errorf("an offer at %#x, want %#x", l.last.to.addr, want)
		}
	}
}
