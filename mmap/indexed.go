package mmap

import (
	"errors"
	"sync/atomic"

	"github.com/goverbs/goverbs/verbs"
)

// ErrIndex means that the other side of an indexed ring stored an index that is out of
// range. The ring cannot be repaired: destroy the object that it belongs to.
var ErrIndex = errors.New("the other side's index is out of range")

// errIndex is what reading the other side's index returns.
var errIndex error = &verbs.Error{Op: "read", Object: "ring", Err: ErrIndex}

// IndexedLayout is the layout of an indexed ring in a region. Offsets are in bytes from the
// start of the region.
type IndexedLayout struct {
	Slots    uint32 // number of elements, a power of two; one always stays empty
	Stride   uint32 // bytes from one element to the next
	Data     int    // offset of the first element
	Producer int    // offset of the producer's index
	Consumer int    // offset of the consumer's index
}

// indexedRing is an array of elements and two index words. Indexes are from 0 to mask. The
// ring is empty if they are equal, and full if the producer is one before the consumer.
type indexedRing[T any] struct {
	slots Slots[T]
	own   *atomic.Uint32 // written by this side, never read again
	other *atomic.Uint32 // written by the other side, which may write anything
	seen  uint32         // *other when last loaded, checked
}

// Slots is a copy of one side's view of an indexed ring: its elements from the side's index
// on. Its fields can stay in registers, while each access through the ring would load them.
// It is valid until the side publishes or releases.
type Slots[T any] struct {
	start  slotsStart
	next   uint32 // the side's index
	mask   uint32
	stride uint32
}

// At returns the element i places from the side's index.
func (s Slots[T]) At(i int) *T {
	return elementFrom[T](s.start, uint64((s.next+uint32(i))&s.mask)*uint64(s.stride))
}

func newIndexedRing[T any](r *Region, l IndexedLayout, own, other int) (indexedRing[T], error) {
	var none indexedRing[T]
	memory := r.Bytes()
	if err := checkArray[T](memory, l.Data, l.Slots, l.Stride); err != nil {
		return none, err
	}
	ownWord, err := r.Word(own)
	if err != nil {
		return none, err
	}
	otherWord, err := r.Word(other)
	if err != nil {
		return none, err
	}
	ring := indexedRing[T]{own: ownWord, other: otherWord,
		slots: Slots[T]{startOf(memory, l.Data), ownWord.Load(), l.Slots - 1, l.Stride}}
	if ring.slots.next > ring.slots.mask {
		return none, ringError("%w: it starts at %d of %d", ErrIndex, ring.slots.next, l.Slots)
	}
	return ring, ring.refresh()
}

// refresh loads the other side's index.
func (r *indexedRing[T]) refresh() error {
	i := r.other.Load()
	if i > r.slots.mask {
		return errIndex
	}
	r.seen = i
	return nil
}

// advance advances this side's index by n elements with one store.
func (r *indexedRing[T]) advance(n int) {
	r.slots.next = (r.slots.next + uint32(n)) & r.slots.mask
	StoreRelease(r.own, r.slots.next)
}

// An IndexedProducer fills a ring with two indexes, such as rxe's work queues. One goroutine
// at a time may use it.
type IndexedProducer[T any] struct{ ring indexedRing[T] }

// NewIndexedProducer returns the producing side of a ring in r. It starts at the indexes that
// are stored there. The numbers in l usually come from the other side. The ring must fit
// in r.
func NewIndexedProducer[T any](r *Region, l IndexedLayout) (*IndexedProducer[T], error) {
	ring, err := newIndexedRing[T](r, l, l.Producer, l.Consumer)
	if err != nil {
		return nil, err
	}
	return &IndexedProducer[T]{ring}, nil
}

// Room returns the number of free elements, at most want, and the elements. The producer also
// owns the element after them, but cannot publish it yet. Room loads the consumer's index
// only if fewer than want seem free. The error matches [ErrIndex].
func (p *IndexedProducer[T]) Room(want int) (Slots[T], int, error) {
	if p.room() >= want {
		return p.ring.slots, want, nil
	}
	err := p.ring.refresh()
	return p.ring.slots, min(p.room(), want), err
}

func (p *IndexedProducer[T]) room() int {
	return int((p.ring.seen - p.ring.slots.next - 1) & p.ring.slots.mask)
}

// Publish hands the first n elements to the consumer with one store. Call it once a batch. A
// consumer that sees the index also sees all earlier stores.
func (p *IndexedProducer[T]) Publish(n int) { p.ring.advance(n) }

// An IndexedConsumer empties a ring with two indexes, such as rxe's completion queues. One
// goroutine at a time may use it.
type IndexedConsumer[T any] struct {
	ring indexedRing[T]
	peek Peek
}

// NewIndexedConsumer returns the consuming side of a ring. The arguments are those of
// [NewIndexedProducer].
func NewIndexedConsumer[T any](r *Region, l IndexedLayout) (*IndexedConsumer[T], error) {
	ring, err := newIndexedRing[T](r, l, l.Consumer, l.Producer)
	if err != nil {
		return nil, err
	}
	return &IndexedConsumer[T]{ring, Peek{start: startOf(r.Bytes(), l.Producer), empty: uint64(ring.slots.next)}}, nil
}

// Peek returns the ring's Peek. A copy of the consumer has its own.
func (c *IndexedConsumer[T]) Peek() *Peek { return &c.peek }

// Ready returns the number of elements to read, at most want, and the elements. Read every
// field once: the other side may still write. Ready returns 0 if the other side's index is
// out of range, see [IndexedConsumer.Err].
func (c *IndexedConsumer[T]) Ready(want int) (Slots[T], int) {
	s, end := c.ring.slots, c.ring.other.Load()
	if end > s.mask {
		return s, 0
	}
	return s, min(int((end-s.next)&s.mask), want)
}

// Err returns an error that matches [ErrIndex] if the other side's index is out of range.
func (c *IndexedConsumer[T]) Err() error {
	if c.ring.other.Load() > c.ring.slots.mask {
		return errIndex
	}
	return nil
}

// Lose detaches the consumer from the ring's memory. From then on Ready returns 0, and no
// other method may be called.
func (c *IndexedConsumer[T]) Lose() {
	c.ring.other, c.ring.slots = new(atomic.Uint32), Slots[T]{}
	c.peek.Hide()
}

// Release returns the n oldest elements to the producer with one store. Call it once a
// batch. Copy the contents first.
func (c *IndexedConsumer[T]) Release(n int) {
	next := (c.ring.slots.next + uint32(n)) & c.ring.slots.mask
	c.ring.slots.next, c.peek.empty = next, uint64(next)
	StoreRelease(c.ring.own, next)
}
