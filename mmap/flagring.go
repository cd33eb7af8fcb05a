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
	slots []T
	word  uintptr // offset of the word in an element
	mask  uint32
	count uint32 // elements this side has passed on; free-running, private
}

func newFlagRing[T any](r *Region, n uint32, wordOffset uintptr) (flagRing[T], error) {
	memory, size := r.Bytes(), sizeOf[T]()
	if err := checkArray[T](memory, 0, n, uint32(size)); err != nil {
		return flagRing[T]{}, err
	}
	if wordOffset%4 != 0 || alignOf[T]()%4 != 0 || uint64(wordOffset) > size-4 {
		return flagRing[T]{}, fmt.Errorf("mmap: no aligned word at offset %d of an element of %d bytes", wordOffset, size)
	}
	return flagRing[T]{slots: slotsOf[T](memory, n), word: wordOffset, mask: n - 1}, nil
}

// at is the element i places behind those this side has passed on.
func (r *flagRing[T]) at(i uint32) *T { return &r.slots[(r.count+i)&r.mask] }

func (r *flagRing[T]) wordOf(e *T) *atomic.Uint32 { return wordIn(e, r.word) }

// A FlagProducer fills a ring whose elements carry their own ownership word, as
// siw's send and receive queues do. An element is the producer's while its word
// has [Valid] clear. One goroutine at a time may use it.
//
// A batch is handed over with one store: [FlagProducer.Stage] stores the words of
// all elements but the first, which the consumer looks at first.
type FlagProducer[T any] struct {
	ring   flagRing[T]
	staged uint32
	first  uint32 // the word of the first element staged
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

// Next returns the element to fill, or nil when the ring is full. Everything but
// the word may be written; nothing is taken before the batch is published. Calling
// it again without Stage returns the same element.
func (p *FlagProducer[T]) Next() *T {
	e := p.ring.at(p.staged)
	if p.ring.wordOf(e).Load()&Valid != 0 || p.staged > p.ring.mask {
		return nil
	}
	return e
}

// Stage adds the element that Next returned to the batch, with the word to store,
// which must have [Valid] set. Who looks beyond the first element may see it before
// the batch is published, as siw does for the limit of an SRQ.
func (p *FlagProducer[T]) Stage(word uint32) {
	if p.staged == 0 {
		p.first = word
	} else {
		StoreRelease(p.ring.wordOf(p.ring.at(p.staged)), word)
	}
	p.staged++
}

// Publish hands the batch to a consumer that takes elements in their order and
// needs no doorbell. All that was written before is seen by whoever sees a word.
func (p *FlagProducer[T]) Publish() {
	if p.staged > 0 {
		StoreRelease(p.ring.wordOf(p.ring.at(0)), p.first)
		p.ring.count, p.staged = p.ring.count+p.staged, 0
	}
}

// PublishBehind publishes the batch, and reports whether the consumer has yet to
// take the element before it. If so it is bound to see the batch without a
// doorbell: this store and this load, and the consumer's clearing store and its
// load of the next word, are sequentially consistent, so one side sees the other.
// When the batch is the whole ring there is no such element: false.
func (p *FlagProducer[T]) PublishBehind() bool {
	n := p.staged
	if n == 0 {
		return true
	}
	p.ring.wordOf(p.ring.at(0)).Store(p.first)
	before := p.ring.at(^uint32(0))
	p.ring.count, p.staged = p.ring.count+n, 0
	return n <= p.ring.mask && p.ring.wordOf(before).Load()&Valid != 0
}

// Retract takes back, oldest first, the elements that the consumer has not taken:
//
//	for e, word := range p.Retract { … }
//
// with the word they were published with. An element is free for Next once it was yielded. A consumer that is still at
// work may take the same element: retract only from one that has stopped.
func (p *FlagProducer[T]) Retract(yield func(*T, uint32) bool) {
	for i := range uint32(len(p.ring.slots)) {
		e := p.ring.at(i)
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
type FlagConsumer[T any] struct{ ring flagRing[T] }

// NewFlagConsumer returns the consuming side; arguments as for [NewFlagProducer].
func NewFlagConsumer[T any](r *Region, n uint32, wordOffset uintptr) (*FlagConsumer[T], error) {
	ring, err := newFlagRing[T](r, n, wordOffset)
	if err != nil {
		return nil, err
	}
	return &FlagConsumer[T]{ring}, nil
}

// Next returns the oldest element and its word, or nil when there is none.
// Use the returned word, not the bytes behind it, and read every other field
// once: the other side may still write. Calling it again without Release returns
// the same element.
func (c *FlagConsumer[T]) Next() (*T, uint32) {
	e := c.ring.at(0)
	w := c.ring.wordOf(e).Load()
	if w&Valid == 0 {
		return nil, 0
	}
	return e, w
}

// Release gives the element that Next returned back to the producer. Copy what
// is needed first. The element is free at some time after: a producer that relies
// on [FlagProducer.PublishBehind] needs a consumer with a barrier behind this.
func (c *FlagConsumer[T]) Release() {
	StoreRelease(c.ring.wordOf(c.ring.at(0)), 0)
	c.ring.count++
}
