package mmap

import (
	"sync/atomic"
	"testing"
)

// TestFlagPeek checks for a whole lap that the ring is empty while the other side owns the
// oldest element.
func TestFlagPeek(t *testing.T) {
	const n = 4
	r := anonymous(t, n*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, n, elementWord))
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, n, elementWord))
	peek := c.Peek()
	for i := range 3 * n {
		if !peek.Empty() {
			t.Fatalf("%d: an empty ring", i)
		}
		slots, _ := p.Room(2)
		p.Stage(0, slots.At(0), Valid|7<<8)
		p.Stage(1, slots.At(1), Valid)
		p.Publish(2)
		for left := 2; left > 0; left-- {
			if peek.Empty() || c.Word(c.At(0))&Valid == 0 {
				t.Fatalf("%d: %d elements, and it seems empty", i, left)
			}
			c.Return(c.At(0))
			c.Release(1)
		}
	}
	peek.Hide()
	if peek.Empty() {
		t.Error("a hidden one says empty")
	}
}

// TestPeekExpect checks a Peek that compares a word that the caller chose.
func TestPeekExpect(t *testing.T) {
	r := anonymous(t, 64)
	word := must[*atomic.Uint32](t)(r.Word(8))
	word.Store(7)
	peek := new(Peek)
	peek.Hide()
	if peek.Expect(word, 7); !peek.Empty() {
		t.Error("it is not empty, and has the value")
	}
	if word.Store(8); peek.Empty() {
		t.Error("it is empty, and has another value")
	}
	for _, v := range []uint32{0, 1, 8} {
		word.Store(v)
		if peek.Clear(); peek.Empty() {
			t.Errorf("it expects nothing, and is empty with %d", v)
		}
	}
	if peek.Expect(word, 8); !peek.Empty() {
		t.Error("it is not empty, and has the value that is expected again")
	}
}
