package mmap

import (
	"math"
	"runtime"
	"testing"
)

func wordOf(t testing.TB, r *Region, i int) (word func() uint32, set func(uint32)) {
	w := mustWord(t, r, i*elementSize+elementWord)
	return w.Load, w.Store
}

// The counters start just below 2³² so that they wrap.
const nearWrap = math.MaxUint32 - 2

func TestFlagProducerFullAndFree(t *testing.T) {
	r := heap(t, 4*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 4, elementWord))
	p.ring.slots.next = nearWrap // element 1
	for i := range 4 {
		e := mustRoom(t, p)
		if again := mustRoom(t, p); e != again {
			t.Fatalf("element %d: %p then %p", i, e, again)
		}
		e.fill(i)
		load, _ := wordOf(t, r, (i+1)%4)
		if load() != 0 {
			t.Errorf("element %d is visible before Publish", i)
		}
		p.Stage(0, e, Valid|0xab000000|uint32(i)<<16)
		if load()&Valid != 0 {
			t.Errorf("element %d, the first of a batch, is visible before Publish", i)
		}
		p.Publish(1)
		if got := load(); got != Valid|0xab000000|uint32(i)<<16 {
			t.Errorf("element %d: word %#x", i, got)
		}
		if e.NumG != uint8(i) || e.Op != 0xab {
			t.Errorf("element %d: the word's neighbours are %d, %#x", i, e.NumG, e.Op)
		}
	}
	if _, n := p.Room(4); n != 0 {
		t.Error("a full ring gave an element")
	}
	_, set := wordOf(t, r, 2)
	set(0)
	if _, n := p.Room(4); n != 0 {
		t.Error("the producer overtook the oldest element")
	}
	_, set = wordOf(t, r, 1)
	set(0xffff0000) // free: only the bit counts
	if _, n := p.Room(4); n != 2 {
		t.Errorf("%d elements, though the two oldest were taken", n)
	}
}

func mustRoom(t testing.TB, p *FlagProducer[element]) *element {
	t.Helper()
	slots, n := p.Room(1)
	if n != 1 {
		t.Fatal("no room")
	}
	return slots.At(0)
}

func (p *FlagProducer[T]) publishOne(t testing.TB) {
	t.Helper()
	slots, n := p.Room(1)
	if n != 1 {
		t.Fatal("no room")
	}
	p.Stage(0, slots.At(0), Valid)
	p.Publish(1)
}

func TestFlagConsumerEmptyAndRelease(t *testing.T) {
	r := heap(t, 4*elementSize)
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, 4, elementWord))
	c.ring.slots.next = nearWrap
	for i := range 6 {
		load, set := wordOf(t, r, (i+1)%4)
		e := c.At(0)
		for _, w := range []uint32{0, ^Valid} {
			set(w)
			if w := c.Word(e); w&Valid != 0 {
				t.Fatalf("an element that isn't valid gave %#x", w)
			}
		}
		set(Valid | 0x00050800)
		if w := c.Word(e); w != Valid|0x00050800 {
			t.Fatalf("element %d: word %#x", i, w)
		}
		c.Return(e)
		c.Release(1)
		if load() != 0 {
			t.Errorf("element %d: word %#x after Release", i, load())
		}
	}
}

func TestFlagProducerBehind(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, batch int
		taken         int // of those before
		want          bool
	}{
		{"no batch", 1, 0, 1, true},
		{"first batch ever", 0, 1, 0, false},
		{"nothing taken", 1, 1, 0, true},
		{"all taken", 1, 1, 1, false},
		{"the last but one taken", 2, 2, 1, true},
		{"the batch leaves one", 1, 3, 0, true},
		{"the batch fills the ring", 1, 4, 1, false},
		{"round the corner", 7, 2, 6, true},
	} {
		r := heap(t, 4*elementSize)
		p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 4, elementWord))
		for i := range c.before {
			p.publishOne(t)
			if i < c.taken {
				_, set := wordOf(t, r, i%4)
				set(0)
			}
		}
		slots, n := p.Room(c.batch)
		for i := range n {
			p.Stage(i, slots.At(i), Valid)
		}
		if got := p.PublishBehind(n); n != c.batch || got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFlagProducerRetract(t *testing.T) {
	r := heap(t, 4*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 4, elementWord))
	for i := range 6 {
		mustRoom(t, p).fill(i)
		p.publishOne(t)
		if i < 3 { // the kernel takes 0, 1 and 2, then stops
			_, set := wordOf(t, r, i%4)
			set(0)
		}
	}
	next := 3
	for e, word := range p.Retract {
		if !e.holds(next) || word != Valid {
			t.Errorf("retracted %d with word %#x, want %d", e.ID, word, next)
		}
		if next++; next == 5 {
			break
		}
	}
	for e := range p.Retract {
		if !e.holds(next) {
			t.Errorf("retracted %d, want %d", e.ID, next)
		}
		next++
	}
	if next != 6 {
		t.Errorf("retracted up to %d", next)
	}
	if _, n := p.Room(5); n != 4 {
		t.Errorf("room for %d, want the whole ring and no more", n)
	}
}

const transfers = 20000

// The kernel takes elements, and sleeps until the doorbell when there is none. A missing
// doorbell would leave it asleep forever.
func TestFlagProducerAgainstKernel(t *testing.T) {
	const n = 8
	r := heap(t, n*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, n, elementWord))
	p.ring.slots.next = nearWrap &^ (n - 1)
	elements := p.ring.slots
	doorbell, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < transfers; {
			load, set := wordOf(t, r, i%n)
			if load()&Valid == 0 {
				<-doorbell
				continue
			}
			taken := *elements.At(i % n)
			set(0)
			if !taken.holds(i) || taken.NumG != uint8(i) {
				t.Errorf("element %d holds %+v", i, taken)
			}
			i++
		}
	}()
	for i, round := 0, 0; i < transfers; round++ {
		slots, room := p.Room(min(round%n+1, transfers-i))
		for j := range room {
			e := slots.At(j)
			e.fill(i)
			p.Stage(j, e, Valid|uint32(uint8(i))<<16)
			i++
		}
		switch {
		case !p.PublishBehind(room):
			select {
			case doorbell <- struct{}{}:
			default:
			}
		case room == 0:
			runtime.Gosched()
		}
	}
	<-done
}

func TestFlagConsumerAgainstKernel(t *testing.T) {
	const n = 8
	r := heap(t, n*elementSize)
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, n, elementWord))
	c.ring.slots.next = nearWrap &^ (n - 1)
	elements := c.ring.slots
	go func() {
		for i := 0; i < transfers; {
			load, set := wordOf(t, r, i%n)
			if load() != 0 {
				runtime.Gosched()
				continue
			}
			elements.At(i % n).fill(i)
			set(Valid | uint32(uint16(i))<<16)
			i++
		}
	}()
	for i := 0; i < transfers; {
		e := c.At(0)
		w := c.Word(e)
		if w&Valid == 0 {
			runtime.Gosched()
			continue
		}
		if !e.holds(i) || w>>16 != uint32(uint16(i)) {
			t.Fatalf("element %d: %+v, word %#x", i, *e, w)
		}
		c.Return(e)
		c.Release(1)
		i++
	}
}

// Any stores of the other side must not yield an element outside the ring.
func FuzzFlagOtherSide(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5}, Valid)
	f.Add([]byte{5, 10, 15, 3, 4, 0, 1, 2, 3, 4}, uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, steps []byte, word uint32) {
		const n = 4
		r := heap(t, n*elementSize)
		p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, n, elementWord))
		c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, n, elementWord))
		p.ring.slots.next, c.ring.slots.next = nearWrap, nearWrap
		see := func(e *element) {
			if !within(e, heapSlot(r, 0), heapSlot(r, n-1), elementSize) {
				t.Fatalf("an element outside the ring: %p", e)
			}
		}
		for _, step := range steps {
			switch step % 5 {
			case 0, 1:
				slots, room := p.Room(int(step))
				for i := range room {
					see(slots.At(i))
					p.Stage(i, slots.At(i), Valid)
				}
				p.PublishBehind(room)
			case 2:
				e := c.At(0)
				see(e)
				if c.Word(e)&Valid != 0 {
					c.Return(e)
					c.Release(1)
				}
			case 3:
				for e := range p.Retract {
					see(e)
				}
			case 4:
				_, set := wordOf(t, r, int(step)%n)
				set(word)
				word = word*1664525 + uint32(step)
			}
		}
	})
}
