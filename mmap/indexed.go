package mmap

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrIndex says that the other side of an indexed ring stored an index outside
// it. The ring is beyond repair; what it belongs to must be destroyed.
var ErrIndex = errors.New("mmap: the other side's ring index is out of range")

// IndexedLayout says where the parts of an indexed ring stand in a region. All
// offsets are in bytes from its start.
type IndexedLayout struct {
	Slots    uint32 // number of elements, a power of two; one always stays empty
	Stride   uint32 // bytes from one element to the next
	Data     int    // offset of the first element
	Producer int    // offset of the producer's index
	Consumer int    // offset of the consumer's index
}

// indexedRing is an array of elements and two index words. Indexes never leave
// 0 … mask: equal means empty, and producer one before consumer means full.
type indexedRing[T any] struct {
	data   []byte
	stride uint32
	mask   uint32
	own    *atomic.Uint32 // written by this side, never read again
	other  *atomic.Uint32 // written by the other side, who may write anything
	next   uint32         // this side's index, ahead of *own until published
	seen   uint32         // *other when last loaded, checked
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
	ring := indexedRing[T]{
		data:   memory[l.Data : l.Data+int(l.Slots)*int(l.Stride)],
		stride: l.Stride, mask: l.Slots - 1,
		own: ownWord, other: otherWord,
		next: ownWord.Load(),
	}
	if ring.next > ring.mask {
		return none, fmt.Errorf("%w: it starts at %d of %d", ErrIndex, ring.next, l.Slots)
	}
	return ring, ring.refresh()
}

// refresh loads the other side's index.
func (r *indexedRing[T]) refresh() error {
	i := r.other.Load()
	if i > r.mask {
		return ErrIndex
	}
	r.seen = i
	return nil
}

func (r *indexedRing[T]) slot() *T { return elementAt[T](r.data, uint64(r.next)*uint64(r.stride)) }

// An IndexedProducer fills a ring with one index a side, as rxe's work queues.
// One goroutine at a time may use it.
type IndexedProducer[T any] struct{ ring indexedRing[T] }

// NewIndexedProducer returns the producing side of the ring that l describes in r,
// starting from the indexes found there. Numbers in l usually come from the other
// side; what doesn't fit in r is an error.
func NewIndexedProducer[T any](r *Region, l IndexedLayout) (*IndexedProducer[T], error) {
	ring, err := newIndexedRing[T](r, l, l.Producer, l.Consumer)
	if err != nil {
		return nil, err
	}
	return &IndexedProducer[T]{ring}, nil
}

// Next returns the element to fill, or nil when the ring is full. The consumer's
// index is loaded only when the ring looks full. Calling it again without Advance
// returns the same element. The error is [ErrIndex].
func (p *IndexedProducer[T]) Next() (*T, error) {
	r := &p.ring
	if full := (r.next + 1) & r.mask; full == r.seen {
		if err := r.refresh(); err != nil || full == r.seen {
			return nil, err
		}
	}
	return r.slot(), nil
}

// Tail returns what follows T in the element that Next returned, up to the stride.
func (p *IndexedProducer[T]) Tail() []byte {
	start := uint64(p.ring.next) * uint64(p.ring.stride)
	return p.ring.data[start+sizeOf[T]() : start+uint64(p.ring.stride)]
}

// Spare returns the element behind those accepted, which is Next's unless the ring
// is full, and this side's in any case.
func (p *IndexedProducer[T]) Spare() *T { return p.ring.slot() }

// Advance accepts the element that Next returned, to go out with the next Publish.
func (p *IndexedProducer[T]) Advance() { p.ring.next = (p.ring.next + 1) & p.ring.mask }

// Publish hands every element accepted so far to the consumer with one store:
// call it once a batch. All that was written before is seen by whoever sees the
// index.
func (p *IndexedProducer[T]) Publish() { StoreRelease(p.ring.own, p.ring.next) }

// An IndexedConsumer empties a ring with one index a side, as rxe's completion
// queues. One goroutine at a time may use it.
type IndexedConsumer[T any] struct{ ring indexedRing[T] }

// NewIndexedConsumer returns the consuming side; arguments as for [NewIndexedProducer].
func NewIndexedConsumer[T any](r *Region, l IndexedLayout) (*IndexedConsumer[T], error) {
	ring, err := newIndexedRing[T](r, l, l.Consumer, l.Producer)
	if err != nil {
		return nil, err
	}
	return &IndexedConsumer[T]{ring}, nil
}

// Next returns the oldest element, or nil when there is none. The producer's index
// is loaded only when the ring looks empty. Read every field once: the other side
// may still write. Calling it again without Advance returns the same element. The
// error is [ErrIndex].
func (c *IndexedConsumer[T]) Next() (*T, error) {
	r := &c.ring
	if r.next == r.seen {
		if err := r.refresh(); err != nil || r.next == r.seen {
			return nil, err
		}
	}
	return r.slot(), nil
}

// Advance is done with the element that Next returned, which goes back to the
// producer with the next Release. Copy what is needed first.
func (c *IndexedConsumer[T]) Advance() { c.ring.next = (c.ring.next + 1) & c.ring.mask }

// Release gives every element done with back to the producer with one store: call
// it once a batch.
func (c *IndexedConsumer[T]) Release() { StoreRelease(c.ring.own, c.ring.next) }
