package mmap

import "fmt"

// A LapConsumer empties a ring that a device fills and that is never written to from
// this side. Each element has a word with an owner bit, whose value changes each time the
// device comes around: an element is ready when its bit has the value of the lap that the
// consumer is in. The first lap's is 1, so a zeroed ring is empty. One goroutine at a time
// may use it.
type LapConsumer[T any] struct {
	slots FlagSlots[T]
	word  uintptr
	owner uint32 // the bit
	peek  Peek
}

// NewLapConsumer returns the consuming side of n elements at the start of r, each with
// its word at wordOffset. owner is the bit of the word as a load on this machine has it.
// n must be a power of two; it usually comes from the other side, and must fit in r.
func NewLapConsumer[T any](r *Region, n uint32, wordOffset uintptr, owner uint32) (*LapConsumer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	if owner == 0 || owner&(owner-1) != 0 {
		return nil, fmt.Errorf("mmap: an owner bit of %#x is no bit", owner)
	}
	c := &LapConsumer[T]{slots: ring.slots, word: wordOffset, owner: owner}
	c.peek.Hide()
	return c, nil
}

// Peek tells whether the ring is empty. It compares with the word that Ready found last
// in an element that was not ready.
func (c *LapConsumer[T]) Peek() *Peek { return &c.peek }

// Ready tells how many elements there are, at most want. Their contents may be read.
func (c *LapConsumer[T]) Ready(want int) (n int) {
	for n < want && n <= int(c.slots.mask) {
		word := wordIn(c.slots.At(n), c.word).Load()
		if word&c.owner != c.ours(n) {
			if n == 0 {
				c.expect(word)
			}
			break
		}
		n++
	}
	if n > 0 {
		FromDevice()
	}
	return n
}

// ours is the owner bit of a ready element i places behind the oldest.
func (c *LapConsumer[T]) ours(i int) uint32 {
	if (c.slots.next+uint32(i))&(c.slots.mask+1) != 0 {
		return 0
	}
	return c.owner
}

// expect has Peek say that the ring is empty while the oldest element has this word.
func (c *LapConsumer[T]) expect(word uint32) {
	offset := uint64(c.slots.next&c.slots.mask)*sizeOf[T]() + uint64(c.word)
	c.peek.start, c.peek.offset, c.peek.empty = c.slots.start, offset, word
}

// At returns the element i places behind the oldest. It may be read if Ready counted it.
// Read each field once: the device is not trusted to leave it alone.
func (c *LapConsumer[T]) At(i int) *T { return c.slots.At(i) }

// Release counts the n oldest elements as passed on. The device may overwrite them at
// once, where it keeps no count of its own. Peek then forgets its word: two laps later the
// same word may stand in the same place, in an element that is ready.
func (c *LapConsumer[T]) Release(n int) {
	c.slots.next += uint32(n)
	c.peek.Hide()
}

// Index is the number of elements that were passed on, free-running.
func (c *LapConsumer[T]) Index() uint32 { return c.slots.next }
