package mmap

import (
	"testing"
	"unsafe"
)

func within(e, first, last *element, stride uintptr) bool {
	at, low, high := uintptr(unsafe.Pointer(e)), uintptr(unsafe.Pointer(first)), uintptr(unsafe.Pointer(last))
	return at >= low && at <= high && (at-low)%stride == 0
}

func heapSlot(r *Region, i int) *element {
	return (*element)(unsafe.Pointer(&r.Bytes()[i*elementSize]))
}

func TestNoAllocations(t *testing.T) {
	r := heap(t, 8*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 8, elementWord))
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, 8, elementWord))
	ri := indexedRegion(t)
	ip := must[*IndexedProducer[element]](t)(NewIndexedProducer[element](ri, indexedLayout))
	ic := must[*IndexedConsumer[element]](t)(NewIndexedConsumer[element](ri, indexedLayout))
	if n := testing.AllocsPerRun(100, func() {
		flagOnce(p, c)
		indexedBatch(ip, ic, 4)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func flagOnce(p *FlagProducer[element], c *FlagConsumer[element]) uint64 {
	slots, n := p.Room(1)
	for i := range n {
		slots.At(i).ID++
		p.Stage(i, slots.At(i), Valid)
	}
	p.Publish(n)
	e := c.At(0)
	id := e.ID
	c.Return(e)
	c.Release(1)
	return id
}

func indexedBatch(p *IndexedProducer[element], c *IndexedConsumer[element], want int) (sum uint64) {
	slots, n, _ := p.Room(want)
	for i := range n {
		slots.At(i).ID++
	}
	p.Publish(n)
	slots, n = c.Ready(want)
	for i := range n {
		sum += slots.At(i).ID
	}
	c.Release(n)
	return sum
}

func BenchmarkFlagEmpty(b *testing.B) {
	c := must[*FlagConsumer[element]](b)(NewFlagConsumer[element](anonymous(b, 8*elementSize), 8, elementWord))
	b.ReportAllocs()
	for b.Loop() {
		if e := c.At(0); c.Word(e)&Valid != 0 {
			b.Fatal(e)
		}
	}
}

// Publish and take one element: two publications.
func BenchmarkFlagOnce(b *testing.B) {
	r := anonymous(b, 8*elementSize)
	p := must[*FlagProducer[element]](b)(NewFlagProducer[element](r, 8, elementWord))
	c := must[*FlagConsumer[element]](b)(NewFlagConsumer[element](r, 8, elementWord))
	b.ReportAllocs()
	for b.Loop() {
		flagOnce(p, c)
	}
}

// Publish and take seven elements in one batch: two publications.
func BenchmarkIndexedBatch7(b *testing.B) {
	r := anonymous(b, 128+indexedSlots*indexedStride)
	p := must[*IndexedProducer[element]](b)(NewIndexedProducer[element](r, indexedLayout))
	c := must[*IndexedConsumer[element]](b)(NewIndexedConsumer[element](r, indexedLayout))
	b.ReportAllocs()
	for b.Loop() {
		indexedBatch(p, c, 7)
	}
}
