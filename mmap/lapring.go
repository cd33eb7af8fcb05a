package mmap

// A LapConsumer empties a ring that a device fills, and writes nothing to it. Each element has
// a word with an owner bit, whose value changes with every lap of the device. An element is
// ready if its bit has the value of the consumer's lap. That is 1 in the first lap, so a
// zeroed ring is empty. One goroutine at a time may use a LapConsumer.
type LapConsumer[T any] struct {
	slots FlagSlots[T]
	word  uintptr
	owner uint32 // the bit
	peek  Peek
}

// NewLapConsumer returns the consuming side of a ring of n elements at the start of r, each
// with its word at wordOffset. owner is the owner bit in a word loaded in native byte order.
// n usually comes from the other side. It must be a power of two, and the ring must fit
// in r.
func NewLapConsumer[T any](r *Region, n uint32, wordOffset uintptr, owner uint32) (*LapConsumer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	if owner == 0 || owner&(owner-1) != 0 {
		return nil, ringError("owner bit %#x is not one bit", owner)
	}
	c := &LapConsumer[T]{slots: ring.slots, word: wordOffset, owner: owner}
	c.peek.Hide()
	return c, nil
}

// Peek returns the ring's Peek. It compares with the word that Ready found last in an element
// that was not ready.
func (c *LapConsumer[T]) Peek() *Peek { return &c.peek }

// Ready returns the number of elements to read, at most want.
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

// ours returns the owner bit of a ready element i places after the oldest.
func (c *LapConsumer[T]) ours(i int) uint32 {
	if (c.slots.next+uint32(i))&(c.slots.mask+1) != 0 {
		return 0
	}
	return c.owner
}

// expect makes Peek report an empty ring while the oldest element has this word.
func (c *LapConsumer[T]) expect(word uint32) {
	offset := uint64(c.slots.next&c.slots.mask)*sizeOf[T]() + uint64(c.word)
	c.peek.start, c.peek.offset, c.peek.empty = c.slots.start, offset, uint64(word)
}

// At returns the element i places after the oldest. It may be read if Ready counted it. Read
// each field once: the device may still write.
func (c *LapConsumer[T]) At(i int) *T { return c.slots.At(i) }

// Release advances past the n oldest elements. A device that does not wait for a doorbell may
// overwrite them at once. Peek then forgets its word, because two laps later the same word
// may be in the same place, in an element that is ready.
func (c *LapConsumer[T]) Release(n int) {
	c.slots.next += uint32(n)
	c.peek.Clear()
}

// Index returns the number of elements that Release has advanced past, free-running.
func (c *LapConsumer[T]) Index() uint32 { return c.slots.next }
