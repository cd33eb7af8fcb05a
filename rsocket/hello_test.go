package rsocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
)

// helloBytes is a hello of librdmacm's rsocket, field by field.
const helloBytes = "01020180" + "00000003" + "00007f0011223344" + "00000a5b" + "00000002" + "00007f0022334455" + "00000a5c" + "00010000"

func TestHello(t *testing.T) {
	b, err := hex.DecodeString(helloBytes)
	if err != nil {
		t.Fatal(err)
	}
	want := hello{credits: 384, mappings: 3, table: offer{0x7f0011223344, 0xa5b, 2}, buffer: offer{0x7f0022334455, 0xa5c, 65536}}
	for _, padding := range []int{0, 16, 156} {
		got, err := parseHello(slices.Concat(b, make([]byte, padding)))
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got := want.marshal(); !bytes.Equal(got, b) {
		t.Errorf("%x", got)
	}
	want.bigEndian = true
	if got, err := parseHello(want.marshal()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// A number of mappings is encoded in a byte, if the peer sends it.
func TestHelloMappings(t *testing.T) {
	b, _ := hex.DecodeString(helloBytes)
	for v, want := range map[byte]int{0: 0, 1: 1, 128: 128, 129: 256, 255: 127 * 256} {
		for flags, want := range map[byte]int{flagIOMap: want, 0: 0} {
			b[1], b[7] = flags, v
			if h, err := parseHello(b); err != nil || h.mappings != want {
				t.Errorf("%d, flags %d: %d, %v", v, flags, h.mappings, err)
			}
		}
	}
}

// All kinds of invalid private data are refused.
func TestHelloOfStranger(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"none":            func([]byte) []byte { return nil },
		"short":           func(b []byte) []byte { return b[:39] },
		"version":         func(b []byte) []byte { b[0] = 2; return b },
		"no credits":      func(b []byte) []byte { b[2], b[3] = 0, 0; return b },
		"a table too few": func(b []byte) []byte { b[23] = 1; return b },
	} {
		b, _ := hex.DecodeString(helloBytes)
		if h, err := parseHello(change(b)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

func FuzzHello(f *testing.F) {
	b, _ := hex.DecodeString(helloBytes)
	f.Add(b)
	f.Add(b[:39])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		h.mappings = min(h.mappings, mostMappings) // this end never has more
		if again, err := parseHello(h.marshal()); err != nil || again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

// Offers are written in the order of the machine that they are written to.
func TestByteOrders(t *testing.T) {
	own, other := hello{bigEndian: bigEndian}, hello{bigEndian: !bigEndian}
	var a, b [offerSize]byte
	offer{1, 2, 3}.put(a[:], own.order())
	offer{1, 2, 3}.put(b[:], other.order())
	if binary.NativeEndian.Uint64(a[:]) != 1 || binary.NativeEndian.Uint64(b[:]) != 1<<56 {
		t.Errorf("%x, %x", a, b)
	}
}

// TestLargeOffers checks that a peer may offer and map more than an int of 32 bits holds, and have a
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
