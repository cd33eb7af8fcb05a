package mmap

import (
	"errors"
	"math"
	"runtime"
	"testing"
)

const (
	indexedSlots  = 8
	indexedStride = 64
)

var indexedLayout = IndexedLayout{Slots: indexedSlots, Stride: indexedStride, Data: 128, Producer: 0, Consumer: 64}

func indexedRegion(t testing.TB) *Region { return heap(t, 128+indexedSlots*indexedStride) }

func kernelSlot(r *Region, i uint32) *element {
	return elementFrom[element](startOf(r.Bytes(), 128), uint64(i)*indexedStride)
}

func TestIndexedProducerFullAndBatch(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	producer.Store(6)
	consumer.Store(6)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	fill := func(want int) {
		t.Helper()
		if _, n, err := p.Room(want - 1); n != want-1 || err != nil {
			t.Fatalf("room for %d of %d, %v", n, want-1, err)
		}
		if _, n, err := p.Room(2 * indexedSlots); n != want || err != nil {
			t.Fatalf("room for %d, %v; want %d", n, err, want)
		}
	}
	fill(indexedSlots - 1)
	if producer.Load() != 6 {
		t.Errorf("index %d before Publish", producer.Load())
	}
	p.Publish(indexedSlots - 1)
	if _, n, err := p.Room(1); n != 0 || err != nil {
		t.Errorf("a full ring has room for %d, %v", n, err)
	}
	if producer.Load() != 5 {
		t.Errorf("index %d after Publish, want 5", producer.Load())
	}
	consumer.Store(1) // took 6, 7, 0
	producer.Store(3) // scribbling on our word changes nothing
	fill(3)
	p.Publish(3)
	if producer.Load() != 0 {
		t.Errorf("index %d, want 0", producer.Load())
	}
}

func TestIndexedConsumerEmptyAndBatch(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	producer.Store(7)
	consumer.Store(7)
	c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
	if _, n := c.Ready(1); n != 0 || c.Err() != nil || !c.Peek().Empty() {
		t.Fatalf("an empty ring gave %d, %v", n, c.Err())
	}
	producer.Store(2)
	if _, n := c.Ready(2); n != 2 || c.Err() != nil || c.Peek().Empty() {
		t.Errorf("2 of 3: %d, %v", n, c.Err())
	}
	slots, n := c.Ready(4)
	if n != 3 || c.Err() != nil {
		t.Errorf("4 of 3: %d, %v", n, c.Err())
	}
	for i, slot := range []uint32{7, 0, 1} {
		if e := slots.At(i); e != kernelSlot(r, slot) {
			t.Fatalf("slot %d: %p", slot, e)
		}
	}
	if consumer.Load() != 7 {
		t.Errorf("index %d before Release", consumer.Load())
	}
	c.Release(3)
	if consumer.Load() != 2 || !c.Peek().Empty() {
		t.Errorf("index %d after Release, want 2; empty: %t", consumer.Load(), c.Peek().Empty())
	}
	producer.Store(3)
	c.Lose()
	if _, n := c.Ready(1); n != 0 || c.Peek().Empty() || c.Err() != nil {
		t.Errorf("a lost ring gave %d, %v; empty: %t", n, c.Err(), c.Peek().Empty())
	}
}

func TestIndexedHostileIndex(t *testing.T) {
	for _, bad := range []uint32{indexedSlots, indexedSlots + 1, 1 << 31, math.MaxUint32} {
		r := indexedRegion(t)
		producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
		p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
		c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
		producer.Store(bad)
		if _, n := c.Ready(1); n != 0 || !errors.Is(c.Err(), ErrIndex) || c.Peek().Empty() {
			t.Errorf("producer at %d: %d, %v; empty: %t", bad, n, c.Err(), c.Peek().Empty())
		}
		consumer.Store(bad)
		p.Publish(indexedSlots - 1)
		producer.Store(bad)
		if _, n, err := p.Room(1); n != 0 || !errors.Is(err, ErrIndex) {
			t.Errorf("consumer at %d: %d, %v", bad, n, err)
		}
		consumer.Store(0)
		if _, err := NewIndexedProducer[element](r, indexedLayout); !errors.Is(err, ErrIndex) {
			t.Errorf("own index at %d from the start: %v", bad, err)
		}
		if _, err := NewIndexedConsumer[element](r, indexedLayout); !errors.Is(err, ErrIndex) {
			t.Errorf("other index at %d from the start: %v", bad, err)
		}
	}
}

func TestIndexedProducerAgainstKernel(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, at := 0, uint32(0); i < transfers; {
			if producer.Load() == at {
				runtime.Gosched()
				continue
			}
			if taken := *kernelSlot(r, at); !taken.holds(i) {
				t.Errorf("element %d holds %+v", i, taken)
			}
			at = (at + 1) % indexedSlots
			consumer.Store(at)
			i++
		}
	}()
	for i, round := 0, 0; i < transfers; round++ {
		slots, n, err := p.Room(min(round%indexedSlots+1, transfers-i))
		if err != nil {
			t.Fatal(err)
		}
		for k := range n {
			slots.At(k).fill(i + k)
		}
		p.Publish(n)
		i += n
		runtime.Gosched()
	}
	<-done
}

func TestIndexedConsumerAgainstKernel(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
	go func() {
		for i, at := 0, uint32(0); i < transfers; {
			next := (at + 1) % indexedSlots
			if next == consumer.Load() {
				runtime.Gosched()
				continue
			}
			kernelSlot(r, at).fill(i)
			producer.Store(next)
			at = next
			i++
		}
	}()
	for i := 0; i < transfers; {
		slots, n := c.Ready(3)
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		for k := range n {
			if e := slots.At(k); !e.holds(i + k) {
				t.Fatalf("element %d holds %+v", i+k, *e)
			}
		}
		c.Release(n)
		i += n
		runtime.Gosched()
	}
}

// Any stores of the other side and any order of calls must not yield an element outside the
// ring.
func FuzzIndexedOtherSide(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5}, uint32(indexedSlots))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 2, 3, 3}, uint32(math.MaxUint32))
	f.Add([]byte{4, 2, 3, 5, 2, 3, 0, 1}, uint32(3))
	f.Fuzz(func(t *testing.T, steps []byte, index uint32) {
		r := indexedRegion(t)
		p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
		c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
		first, last := kernelSlot(r, 0), kernelSlot(r, indexedSlots-1)
		for _, step := range steps {
			var e *element
			switch step % 6 {
			case 0, 1:
				if slots, n, _ := p.Room(int(step)); n > 0 {
					e = slots.At(n - 1)
					p.Publish(n)
				}
			case 2, 3:
				if slots, n := c.Ready(int(step)); n > 0 {
					e = slots.At(n - 1)
					c.Release(n)
				}
			case 4:
				mustWord(t, r, 0).Store(index)
			case 5:
				mustWord(t, r, 64).Store(index)
				index = index*1664525 + uint32(step)
			}
			if e != nil && !within(e, first, last, indexedStride) {
				t.Fatalf("an element outside the ring: %p", e)
			}
		}
	})
}

// The element after the last free one is inside the ring as well.
func TestIndexedProducerSpare(t *testing.T) {
	r := indexedRegion(t)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	p.Publish(indexedSlots - 1)
	if slots, n, _ := p.Room(1); n != 0 || slots.At(0) != kernelSlot(r, indexedSlots-1) {
		t.Errorf("room for %d, %p", n, slots.At(0))
	}
}
