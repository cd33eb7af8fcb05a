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
	return elementAt[element](r.Bytes(), 128+uint64(i)*indexedStride)
}

func TestIndexedProducerFullAndBatch(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	producer.Store(6)
	consumer.Store(6)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	fill := func(want int) {
		t.Helper()
		for i := range want {
			e, err := p.Next()
			if again, _ := p.Next(); e == nil || err != nil || e != again {
				t.Fatalf("element %d: %p, %p, %v", i, e, again, err)
			}
			p.Advance()
		}
		if e, err := p.Next(); e != nil || err != nil {
			t.Fatalf("a full ring gave %p, %v", e, err)
		}
	}
	fill(indexedSlots - 1)
	if producer.Load() != 6 {
		t.Errorf("index %d before Publish", producer.Load())
	}
	p.Publish()
	if producer.Load() != 5 {
		t.Errorf("index %d after Publish, want 5", producer.Load())
	}
	consumer.Store(1) // took 6, 7, 0
	producer.Store(3) // scribbling on our word changes nothing
	fill(3)
	p.Publish()
	if producer.Load() != 0 {
		t.Errorf("index %d, want 0", producer.Load())
	}
}

func TestIndexedProducerTail(t *testing.T) {
	r := indexedRegion(t)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	p.Advance()
	tail := p.Tail()
	if len(tail) != indexedStride-elementSize || &tail[0] != &r.Bytes()[128+indexedStride+elementSize] {
		t.Errorf("tail of %d bytes at %p", len(tail), &tail[0])
	}
}

func TestIndexedConsumerEmptyAndBatch(t *testing.T) {
	r := indexedRegion(t)
	producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
	producer.Store(7)
	consumer.Store(7)
	c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
	if e, err := c.Next(); e != nil || err != nil {
		t.Fatalf("an empty ring gave %p, %v", e, err)
	}
	producer.Store(2)
	for _, i := range []uint32{7, 0, 1} {
		if e, err := c.Next(); e != kernelSlot(r, i) || err != nil {
			t.Fatalf("slot %d: %p, %v", i, e, err)
		}
		c.Advance()
	}
	if consumer.Load() != 7 {
		t.Errorf("index %d before Release", consumer.Load())
	}
	if e, err := c.Next(); e != nil || err != nil {
		t.Errorf("beyond the last: %p, %v", e, err)
	}
	c.Release()
	if consumer.Load() != 2 {
		t.Errorf("index %d after Release, want 2", consumer.Load())
	}
}

func TestIndexedHostileIndex(t *testing.T) {
	for _, bad := range []uint32{indexedSlots, indexedSlots + 1, 1 << 31, math.MaxUint32} {
		r := indexedRegion(t)
		producer, consumer := mustWord(t, r, 0), mustWord(t, r, 64)
		p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
		c := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](r, indexedLayout))
		producer.Store(bad)
		if e, err := c.Next(); e != nil || !errors.Is(err, ErrIndex) {
			t.Errorf("producer at %d: %p, %v", bad, e, err)
		}
		consumer.Store(bad)
		for range indexedSlots - 1 {
			p.Advance()
		}
		if e, err := p.Next(); e != nil || !errors.Is(err, ErrIndex) {
			t.Errorf("consumer at %d: %p, %v", bad, e, err)
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
		for range round%indexedSlots + 1 {
			e, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e == nil || i == transfers {
				break
			}
			e.fill(i)
			p.Advance()
			i++
		}
		p.Publish()
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
		e, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			c.Release()
			runtime.Gosched()
			continue
		}
		if !e.holds(i) {
			t.Fatalf("element %d holds %+v", i, *e)
		}
		c.Advance()
		i++
	}
}

// Whatever the other side stores, and in whatever order a careful caller acts,
// each element returned is one of the ring's.
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
			case 0:
				if e, _ = p.Next(); e != nil {
					p.Tail()[0] = step
					p.Advance()
				}
			case 1:
				p.Publish()
			case 2:
				if e, _ = c.Next(); e != nil {
					c.Advance()
				}
			case 3:
				c.Release()
			case 4:
				mustWord(t, r, 0).Store(index)
			case 5:
				mustWord(t, r, 64).Store(index)
				index = index*1664525 + uint32(step)
			}
			if e != nil && !within(e, first, last) {
				t.Fatalf("an element outside the ring: %p", e)
			}
		}
	})
}

func TestIndexedProducerSpare(t *testing.T) {
	r := indexedRegion(t)
	p := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](r, indexedLayout))
	for i := range uint32(indexedSlots - 1) {
		if e, _ := p.Next(); e != p.Spare() || e != kernelSlot(r, i) {
			t.Errorf("slot %d: %p, %p", i, e, p.Spare())
		}
		p.Advance()
	}
	if e, _ := p.Next(); e != nil || p.Spare() != kernelSlot(r, indexedSlots-1) {
		t.Errorf("full: %p, %p", e, p.Spare())
	}
}
