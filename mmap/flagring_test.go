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

// The counters start just before 2³² so that they wrap on the way.
const nearWrap = math.MaxUint32 - 2

func TestFlagProducerFullAndFree(t *testing.T) {
	r := heap(t, 4*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 4, elementWord))
	p.ring.count = nearWrap // element 1
	for i := range 4 {
		e := p.Next()
		if e == nil || e != p.Next() {
			t.Fatalf("element %d: %p then %p", i, e, p.Next())
		}
		e.fill(i)
		load, _ := wordOf(t, r, (i+1)%4)
		if load() != 0 {
			t.Errorf("element %d is visible before Publish", i)
		}
		p.Stage(Valid | 0xab000000 | uint32(i)<<16)
		if load()&Valid != 0 {
			t.Errorf("element %d, the first of a batch, is visible before Publish", i)
		}
		p.Publish()
		if got := load(); got != Valid|0xab000000|uint32(i)<<16 {
			t.Errorf("element %d: word %#x", i, got)
		}
		if e.NumG != uint8(i) || e.Op != 0xab {
			t.Errorf("element %d: the word's neighbours are %d, %#x", i, e.NumG, e.Op)
		}
	}
	if p.Next() != nil {
		t.Error("a full ring gave an element")
	}
	_, set := wordOf(t, r, 2)
	set(0)
	if p.Next() != nil {
		t.Error("the producer overtook the oldest element")
	}
	_, set = wordOf(t, r, 1)
	set(0xffff0000) // free: only the bit counts
	if p.Next() == nil {
		t.Error("no element though the oldest was taken")
	}
}

func TestFlagConsumerEmptyAndRelease(t *testing.T) {
	r := heap(t, 4*elementSize)
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, 4, elementWord))
	c.ring.count = nearWrap
	for i := range 6 {
		load, set := wordOf(t, r, (i+1)%4)
		if e, w := c.Next(); e != nil || w != 0 {
			t.Fatalf("an empty ring gave %v, %#x", e, w)
		}
		set(^Valid)
		if e, _ := c.Next(); e != nil {
			t.Fatal("an element that isn't valid")
		}
		set(Valid | 0x00050800)
		e, w := c.Next()
		if again, _ := c.Next(); e == nil || e != again || w != Valid|0x00050800 {
			t.Fatalf("element %d: %p, %p, word %#x", i, e, again, w)
		}
		c.Release()
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
			p.Next()
			p.Stage(Valid)
			p.Publish()
			if i < c.taken {
				_, set := wordOf(t, r, i%4)
				set(0)
			}
		}
		for range c.batch {
			p.Next()
			p.Stage(Valid)
		}
		if got := p.PublishBehind(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFlagProducerRetract(t *testing.T) {
	r := heap(t, 4*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, 4, elementWord))
	for i := range 6 {
		p.Next().fill(i)
		p.Stage(Valid)
		p.Publish()
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
	for range 4 {
		if p.Next() == nil {
			t.Fatal("a retracted element is not free")
		}
		p.Stage(Valid)
	}
	if p.Next() != nil {
		t.Error("a batch larger than the ring")
	}
}

const transfers = 20000

// The kernel takes elements, and sleeps when there is none until the doorbell
// rings. A doorbell skipped wrongly leaves it asleep for ever.
func TestFlagProducerAgainstKernel(t *testing.T) {
	const n = 8
	r := heap(t, n*elementSize)
	p := must[*FlagProducer[element]](t)(NewFlagProducer[element](r, n, elementWord))
	p.ring.count = nearWrap &^ (n - 1)
	elements := slotsOf[element](r.Bytes(), n)
	doorbell, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < transfers; {
			load, set := wordOf(t, r, i%n)
			if load()&Valid == 0 {
				<-doorbell
				continue
			}
			taken := elements[i%n]
			set(0)
			if !taken.holds(i) || taken.NumG != uint8(i) {
				t.Errorf("element %d holds %+v", i, taken)
			}
			i++
		}
	}()
	for i, round := 0, 0; i < transfers; round++ {
		before := i
		for ; i-before <= round%n && i < transfers; i++ {
			e := p.Next()
			if e == nil {
				break
			}
			e.fill(i)
			p.Stage(Valid | uint32(uint8(i))<<16)
		}
		switch {
		case !p.PublishBehind():
			select {
			case doorbell <- struct{}{}:
			default:
			}
		case i == before:
			runtime.Gosched()
		}
	}
	<-done
}

func TestFlagConsumerAgainstKernel(t *testing.T) {
	const n = 8
	r := heap(t, n*elementSize)
	c := must[*FlagConsumer[element]](t)(NewFlagConsumer[element](r, n, elementWord))
	c.ring.count = nearWrap &^ (n - 1)
	elements := slotsOf[element](r.Bytes(), n)
	go func() {
		for i := 0; i < transfers; {
			load, set := wordOf(t, r, i%n)
			if load() != 0 {
				runtime.Gosched()
				continue
			}
			elements[i%n].fill(i)
			set(Valid | uint32(uint16(i))<<16)
			i++
		}
	}()
	for i := 0; i < transfers; {
		e, w := c.Next()
		if e == nil {
			runtime.Gosched()
			continue
		}
		if !e.holds(i) || w>>16 != uint32(uint16(i)) {
			t.Fatalf("element %d: %+v, word %#x", i, *e, w)
		}
		c.Release()
		i++
	}
}
