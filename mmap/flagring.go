package mmap

import "sync/atomic"

// Valid is the bit of an element's word that is set while the consumer owns the element. The
// producer sets it and the consumer clears it.
const Valid uint32 = 1

// flagRing is an array of elements. A word in each holds the owner.
type flagRing[T any] struct {
	slots FlagSlots[T]
	word  uintptr // offset of the word in an element
}

// FlagSlots is a copy of one side's view of a flag ring, like [Slots]. Its elements are
// adjacent, as in an array.
type FlagSlots[T any] struct {
	start slotsStart
	next  uint32 // number of elements that the side has passed on; free-running, private
	mask  uint32
}

// At returns the element i places from the side's index.
func (s FlagSlots[T]) At(i int) *T {
	return elementFrom[T](s.start, uint64((s.next+uint32(i))&s.mask)*sizeOf[T]())
}

func newFlagRing[T any](r *Region, n uint32, wordOffset uintptr) (flagRing[T], error) {
	memory, size := r.Bytes(), sizeOf[T]()
	if err := checkArray[T](memory, 0, n, uint32(size)); err != nil {
		return flagRing[T]{}, err
	}
	if wordOffset%4 != 0 || alignOf[T]()%4 != 0 || uint64(wordOffset) > size-4 {
		return flagRing[T]{}, ringError("no aligned word at offset %d of an element of %d bytes", wordOffset, size)
	}
	return flagRing[T]{slots: FlagSlots[T]{startOf(memory, 0), 0, n - 1}, word: wordOffset}, nil
}

func (r *flagRing[T]) wordOf(e *T) *atomic.Uint32 { return wordIn(e, r.word) }

// A FlagProducer fills a ring with an ownership word in each element, such as siw's send and
// receive queues. The producer owns an element while [Valid] is clear in its word. One
// goroutine at a time may use a FlagProducer.
//
// One store hands a batch over: [FlagProducer.Stage] stores the words of all elements but the
// first, and the consumer takes the first element first.
type FlagProducer[T any] struct {
	ring  flagRing[T]
	first uint32 // the word of the first element staged
}

// NewFlagProducer returns the producing side of a ring of n elements at the start of r, each
// with its word at wordOffset. n usually comes from the other side. It must be a power of
// two, and the ring must fit in r.
func NewFlagProducer[T any](r *Region, n uint32, wordOffset uintptr) (*FlagProducer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	return &FlagProducer[T]{ring: ring}, nil
}

// Room returns the number of free elements, at most want, and the elements. The caller may
// write everything but the words. Nothing is handed over before the batch is published.
//
// Room checks the word of the last element only, because the consumer takes elements in
// order. Checking every word would transfer each cache line twice: once for the check, and
// once for the write. A consumer that does not keep the order may find an element
// overwritten.
func (p *FlagProducer[T]) Room(want int) (FlagSlots[T], int) {
	want = min(want, int(p.ring.slots.mask)+1)
	if want > 0 && !p.free(want-1) {
		want = p.count(want - 1)
	}
	return p.ring.slots, want
}

func (p *FlagProducer[T]) free(i int) bool {
	return p.ring.wordOf(p.ring.slots.At(i)).Load()&Valid == 0
}

// count returns the number of free elements, at most most.
func (p *FlagProducer[T]) count(most int) (n int) {
	for n < most && p.free(n) {
		n++
	}
	return n
}

// Stage adds element e to the batch at position i. word is the word to store, which must have
// [Valid] set. A consumer that looks beyond the first element may see e before the batch is
// published. siw does that for the limit of an SRQ.
func (p *FlagProducer[T]) Stage(i int, e *T, word uint32) {
	if i == 0 {
		p.first = word
		return
	}
	StoreRelease(p.ring.wordOf(e), word)
}

// Publish hands the n staged elements to a consumer that takes elements in order and needs no
// doorbell. A consumer that sees a word also sees all earlier stores.
func (p *FlagProducer[T]) Publish(n int) {
	if n > 0 {
		StoreRelease(p.ring.wordOf(p.ring.slots.At(0)), p.first)
		p.ring.slots.next += uint32(n)
	}
}

// PublishBehind publishes the n staged elements. It reports whether the consumer still owns
// the element before them. The consumer then sees the batch without a doorbell: this store
// and load, and the consumer's clearing store and its load of the next word, are
// sequentially consistent, so at least one side sees the other's store. PublishBehind
// returns false if the batch is the whole ring, which has no element before it.
func (p *FlagProducer[T]) PublishBehind(n int) bool {
	if n == 0 {
		return true
	}
	slots := p.ring.slots
	p.ring.wordOf(slots.At(0)).Store(p.first)
	p.ring.slots.next += uint32(n)
	return n <= int(slots.mask) && p.ring.wordOf(slots.At(-1)).Load()&Valid != 0
}

// Empty reports whether the consumer has taken all published elements.
func (p *FlagProducer[T]) Empty() bool { return p.free(-1) }

// Retract takes back the elements that the consumer has not taken, and yields each with its
// word, oldest first:
//
//	for e, word := range p.Retract { … }
//
// A yielded element is free. The consumer must have stopped, because it might take the same
// element.
func (p *FlagProducer[T]) Retract(yield func(*T, uint32) bool) {
	for i := range int(p.ring.slots.mask) + 1 {
		e := p.ring.slots.At(i)
		w := p.ring.wordOf(e)
		if word := w.Load(); word&Valid != 0 {
			w.Store(0)
			if !yield(e, word) {
				return
			}
		}
	}
}

// A FlagConsumer empties a ring with an ownership word in each element, such as siw's
// completion queues. The consumer owns an element while [Valid] is set in its word. One
// goroutine at a time may use a FlagConsumer.
type FlagConsumer[T any] struct {
	ring flagRing[T]
	peek Peek
}

// NewFlagConsumer returns the consuming side of a ring. The arguments are those of
// [NewFlagProducer].
func NewFlagConsumer[T any](r *Region, n uint32, wordOffset uintptr) (*FlagConsumer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	return &FlagConsumer[T]{ring, Peek{start: ring.slots.start, offset: uint64(wordOffset)}}, nil
}

// Peek returns the ring's Peek. A copy of the consumer has its own.
func (c *FlagConsumer[T]) Peek() *Peek { return &c.peek }

// At returns the element i places after the oldest. [FlagConsumer.Word] has its owner.
func (c *FlagConsumer[T]) At(i int) *T { return c.ring.slots.At(i) }

// Word returns the word of an element. The consumer owns the element if [Valid] is set. Use
// the returned word instead of the element's bytes, and read every other field once: the
// other side may still write.
func (c *FlagConsumer[T]) Word(e *T) uint32 { return wordIn(e, c.ring.word).Load() }

// Return returns an element to the producer. Elements must be returned in order, and each
// that Release counts must be returned. Copy the contents first. The producer may see the
// store later: [FlagProducer.PublishBehind] needs a consumer with a barrier after it.
func (c *FlagConsumer[T]) Return(e *T) { StoreRelease(wordIn(e, c.ring.word), 0) }

// Release advances past the n oldest elements, all of which must have been returned.
func (c *FlagConsumer[T]) Release(n int) {
	next := c.ring.slots.next + uint32(n)
	c.ring.slots.next = next
	c.peek.offset = uint64(next&c.ring.slots.mask)*sizeOf[T]() + uint64(c.ring.word)
}
