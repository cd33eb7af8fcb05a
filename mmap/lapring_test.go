package mmap

import (
	"encoding/binary"
	"testing"
)

type lapElement struct{ _, value uint32 }

// lapRing has both sides of a ring of four elements.
type lapRing struct {
	*LapConsumer[lapElement]
	memory []byte
	pi     uint32
}

const lapOwner = 0x80

func newLapRing(t *testing.T) *lapRing {
	t.Helper()
	memory := make([]byte, 4*8)
	region, err := Wrap(memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = region.Close() })
	c, err := NewLapConsumer[lapElement](region, 4, 0, lapOwner)
	if err != nil {
		t.Fatal(err)
	}
	return &lapRing{c, memory, 0}
}

// put plays the device, which sets the bit in even laps.
func (r *lapRing) put(value uint32) {
	at := r.memory[r.pi%4*8:]
	binary.NativeEndian.PutUint32(at[4:], value)
	word := uint32(7)
	if r.pi/4%2 == 0 {
		word |= lapOwner
	}
	binary.NativeEndian.PutUint32(at, word)
	r.pi++
}

// TestLapConsumer consumes nine laps, with batches of all sizes.
func TestLapConsumer(t *testing.T) {
	r := newLapRing(t)
	var in, out uint32
	for batch := 0; in < 36; batch = (batch + 1) % 5 {
		for range batch {
			r.put(in)
			in++
		}
		if r.Peek().Empty() && batch > 0 {
			t.Fatal("Peek sees nothing of a batch")
		}
		n := r.Ready(10)
		if n != batch {
			t.Fatalf("%d ready, want %d", n, batch)
		}
		for i := range n {
			if v := r.At(i).value; v != out {
				t.Fatalf("got %d, want %d", v, out)
			}
			out++
		}
		r.Release(n)
		if r.Index() != out {
			t.Fatalf("index %d, want %d", r.Index(), out)
		}
		if r.Ready(1) != 0 || !r.Peek().Empty() {
			t.Fatal("an emptied ring is not empty")
		}
	}
}

// TestLapConsumerBounds checks that Ready returns neither more than want nor more than a ring.
func TestLapConsumerBounds(t *testing.T) {
	r := newLapRing(t)
	if r.Peek().Empty() {
		t.Error("Peek speaks before anybody looked")
	}
	for i := range 4 {
		r.put(uint32(i))
	}
	if n := r.Ready(3); n != 3 {
		t.Errorf("%d ready of 3 wanted", n)
	}
	if n := r.Ready(9); n != 4 {
		t.Errorf("%d ready of a ring of 4", n)
	}
}

func TestLapConsumerRefuses(t *testing.T) {
	region, err := Wrap(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	for _, c := range []struct {
		n     uint32
		word  uintptr
		owner uint32
	}{{3, 0, 1}, {8, 0, 1}, {4, 2, 1}, {4, 8, 1}, {4, 0, 0}, {4, 0, 3}} {
		if _, err := NewLapConsumer[lapElement](region, c.n, c.word, c.owner); err == nil {
			t.Errorf("%+v makes a ring", c)
		}
	}
}

func TestArray(t *testing.T) {
	memory := make([]byte, 48)
	region, err := Wrap(memory)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	a, err := NewArray[uint64](region, 16, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(6) {
		*a.At(i) = uint64(i)
	}
	for i, want := range []uint64{0, 0, 4, 5, 2, 3} {
		if v := binary.NativeEndian.Uint64(memory[8*i:]); v != want {
			t.Errorf("word %d is %d, want %d", i, v, want)
		}
	}
	for _, c := range []struct {
		offset int
		n      uint32
	}{{24, 4}, {16, 3}, {4, 1}, {-8, 1}, {16, 8}} {
		if _, err := NewArray[uint64](region, c.offset, c.n); err == nil {
			t.Errorf("%+v makes an array", c)
		}
	}
}

// TestLapConsumerStalePeek consumes more than two laps without finding the ring empty. Then
// the word that Peek compared with is in its place again.
func TestLapConsumerStalePeek(t *testing.T) {
	r := newLapRing(t)
	for range 8 { // the second lap's words come again in the fourth
		r.put(0)
		r.Release(r.Ready(1))
	}
	if r.Ready(1) != 0 {
		t.Fatal("not empty")
	}
	r.put(0)
	for i := range 20 {
		r.put(0)
		if r.Peek().Empty() {
			t.Fatalf("Peek sees nothing of element %d", i)
		}
		r.Release(r.Ready(1))
	}
}
