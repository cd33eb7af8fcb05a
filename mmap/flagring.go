package mmap

import (
	"fmt"
	"sync/atomic"
)

// Valid is the bit of an element's word that hands it to the consumer: the
// producer sets it, the consumer clears it.
const Valid uint32 = 1

// flagRing is an array of elements, each with a word that says who owns it.
type flagRing[T any] struct {
	slots FlagSlots[T]
	word  uintptr // offset of the word in an element
}

// FlagSlots is to a flag ring what [Slots] is to an indexed one. Its elements stand
// as close as in an array.
type FlagSlots[T any] struct {
	start slotsStart
	next  uint32 // elements the side has passed on; free-running, private
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
		return flagRing[T]{}, fmt.Errorf("mmap: no aligned word at offset %d of an element of %d bytes", wordOffset, size)
	}
	return flagRing[T]{slots: FlagSlots[T]{startOf(memory, 0), 0, n - 1}, word: wordOffset}, nil
}

func (r *flagRing[T]) wordOf(e *T) *atomic.Uint32 { return wordIn(e, r.word) }

// A FlagProducer fills a ring whose elements carry their own ownership word, as
// siw's send and receive queues do. An element is the producer's while its word
// has [Valid] clear. One goroutine at a time may use it.
//
// A batch is handed over with one store: [FlagProducer.Stage] stores the words of
// all elements but the first, which the consumer looks at first.
type FlagProducer[T any] struct {
	ring  flagRing[T]
	first uint32 // the word of the first element staged
}

// NewFlagProducer returns the producing side of n elements at the start of r, each
// with its word at wordOffset. n usually comes from the other side; a number that
// is no power of two or doesn't fit in r is an error.
func NewFlagProducer[T any](r *Region, n uint32, wordOffset uintptr) (*FlagProducer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	return &FlagProducer[T]{ring: ring}, nil
}

// Room tells how many elements can be filled, at most want, and where they are.
// Everything but the word may be written; nothing is taken before the batch is
// published. The consumer takes elements in their order, so that the last one's
// word speaks for those before it: to load the word of each would bring its cache
// line here to be read, and once more to be written. A consumer that keeps no order
// may find an element overwritten, and has itself to blame.
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

// count is the number of free elements, at most most.
func (p *FlagProducer[T]) count(most int) (n int) {
	for n < most && p.free(n) {
		n++
	}
	return n
}

// Stage adds element e, at i of the batch, with the word to store, which must have
// [Valid] set. A consumer that looks beyond the first element, as siw does for the limit
// of an SRQ, may see it before the batch is published.
func (p *FlagProducer[T]) Stage(i int, e *T, word uint32) {
	if i == 0 {
		p.first = word
		return
	}
	StoreRelease(p.ring.wordOf(e), word)
}

// Publish hands the n elements staged to a consumer that takes elements in their
// order and needs no doorbell. A consumer that sees a word also sees all earlier stores.
func (p *FlagProducer[T]) Publish(n int) {
	if n > 0 {
		StoreRelease(p.ring.wordOf(p.ring.slots.At(0)), p.first)
		p.ring.slots.next += uint32(n)
	}
}

// PublishBehind publishes the n elements staged, and reports whether the consumer
// has yet to take the element before them. If so it is bound to see the batch
// without a doorbell: this store and this load, and the consumer's clearing store
// and its load of the next word, are sequentially consistent, so one side sees the
// other. When the batch is the whole ring there is no such element: false.
func (p *FlagProducer[T]) PublishBehind(n int) bool {
	if n == 0 {
		return true
	}
	slots := p.ring.slots
	p.ring.wordOf(slots.At(0)).Store(p.first)
	p.ring.slots.next += uint32(n)
	return n <= int(slots.mask) && p.ring.wordOf(slots.At(-1)).Load()&Valid != 0
}

// Retract takes back, oldest first, the elements that the consumer has not taken:
//
//	for e, word := range p.Retract { … }
//
// with the word they were published with. An element is free once it was yielded.
// A consumer that is still at work may take the same element: retract only from one
// that has stopped.
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

// A FlagConsumer empties a ring whose elements carry their own ownership word,
// as siw's completion queues do. An element is the consumer's while its word has
// [Valid] set. One goroutine at a time may use it.
type FlagConsumer[T any] struct {
	ring flagRing[T]
	peek Peek
}

// NewFlagConsumer returns the consuming side; arguments as for [NewFlagProducer].
func NewFlagConsumer[T any](r *Region, n uint32, wordOffset uintptr) (*FlagConsumer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	return &FlagConsumer[T]{ring, Peek{start: ring.slots.start, offset: uint64(wordOffset)}}, nil
}

// Peek tells whether the ring is empty. A copy of the consumer has its own.
func (c *FlagConsumer[T]) Peek() *Peek { return &c.peek }

// At returns the element i places behind the oldest. Whether it is this side's only
// [FlagConsumer.Word] can tell.
func (c *FlagConsumer[T]) At(i int) *T { return c.ring.slots.At(i) }

// Word returns the word of an element, which is this side's if [Valid] is set. Use
// it, not the bytes behind it, and read every other field once: the other side may
// still write.
func (c *FlagConsumer[T]) Word(e *T) uint32 { return wordIn(e, c.ring.word).Load() }

// Return gives an element back to the producer: in their order, and each that is
// counted by Release. Copy what is needed first. The element is free at some time
// after: a producer that relies on [FlagProducer.PublishBehind] needs a consumer
// with a barrier behind this.
func (c *FlagConsumer[T]) Return(e *T) { StoreRelease(wordIn(e, c.ring.word), 0) }

// Release counts the n oldest elements, all returned, as passed on.
func (c *FlagConsumer[T]) Release(n int) {
	next := c.ring.slots.next + uint32(n)
	c.ring.slots.next = next
	c.peek.offset = uint64(next&c.ring.slots.mask)*sizeOf[T]() + uint64(c.ring.word)
}
