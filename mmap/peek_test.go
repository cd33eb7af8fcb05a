package mmap

import (
	"sync/atomic"
	"testing"
)

// TestFlagPeek goes around a ring: it is empty while the oldest element is the other
// side's.
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
	if peek.Empty() || NewHiddenPeek().Empty() {
		t.Error("a hidden one says empty")
	}
}

// TestPeekExpect: a ring that is read in another way is empty while a word has its value.
func TestPeekExpect(t *testing.T) {
	r := anonymous(t, 64)
	word := must[*atomic.Uint32](t)(r.Word(8))
	word.Store(7)
	peek := NewHiddenPeek()
	if peek.Expect(word, 7); !peek.Empty() {
		t.Error("it is not empty, and has the value")
	}
	if word.Store(8); peek.Empty() {
		t.Error("it is empty, and has another value")
	}
}
