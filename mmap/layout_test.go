package mmap

import (
	"math"
	"strings"
	"structs"
	"testing"
)

func TestWordChecks(t *testing.T) {
	r := heap(t, 64)
	for _, c := range []struct {
		offset int
		want   string
	}{{0, ""}, {60, ""}, {61, "outside"}, {64, "outside"}, {-4, "outside"}, {math.MaxInt, "outside"}, {6, "aligned"}} {
		_, err := r.Word(c.offset)
		checkError(t, c.offset, err, c.want)
	}
	tiny, err := Wrap(make([]byte, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer tiny.Close()
	_, err = tiny.Word(0)
	checkError(t, "2 bytes", err, "outside")
}

func TestFlagRingChecks(t *testing.T) {
	r := heap(t, 8*elementSize)
	skewed, err := Wrap(r.Bytes()[4:])
	if err != nil {
		t.Fatal(err)
	}
	defer skewed.Close()
	for _, c := range []struct {
		name   string
		region *Region
		n      uint32
		word   uintptr
		want   string
	}{
		{"fits exactly", r, 8, elementWord, ""},
		{"one element", r, 1, elementWord, ""},
		{"last word", r, 8, elementSize - 4, ""},
		{"no element", r, 0, elementWord, "power of two"},
		{"odd number", r, 6, elementWord, "power of two"},
		{"too many", r, 16, elementWord, "don't fit"},
		{"as many as can be said", r, 1 << 31, elementWord, "don't fit"},
		{"word across the end", r, 8, elementSize - 2, "no aligned word"},
		{"word outside", r, 8, elementSize, "no aligned word"},
		{"word far outside", r, 8, math.MaxUint &^ 3, "no aligned word"},
		{"word unaligned", r, 8, 6, "no aligned word"},
		{"memory unaligned", skewed, 4, elementWord, "not aligned"},
	} {
		_, err := NewFlagProducer[element](c.region, c.n, c.word)
		checkError(t, c.name, err, c.want)
		_, err = NewFlagConsumer[element](c.region, c.n, c.word)
		checkError(t, c.name, err, c.want)
	}
}

func TestIndexedRingChecks(t *testing.T) {
	r := heap(t, 128+8*64)
	good := IndexedLayout{Slots: 8, Stride: 64, Data: 128, Producer: 4, Consumer: 64}
	for _, c := range []struct {
		name   string
		change func(*IndexedLayout)
		want   string
	}{
		{"fits exactly", func(l *IndexedLayout) {}, ""},
		{"no slots", func(l *IndexedLayout) { l.Slots = 0 }, "power of two"},
		{"mask instead of slots", func(l *IndexedLayout) { l.Slots = 7 }, "power of two"},
		{"too many", func(l *IndexedLayout) { l.Slots = 16 }, "don't fit"},
		{"product beyond 32 bits", func(l *IndexedLayout) { l.Slots, l.Stride = 1<<31, 1<<31 }, "don't fit"},
		{"stride below the element", func(l *IndexedLayout) { l.Stride = 32 }, "can't stand"},
		{"no stride", func(l *IndexedLayout) { l.Stride = 0 }, "can't stand"},
		{"odd stride", func(l *IndexedLayout) { l.Stride = 44 }, "not aligned"},
		{"data outside", func(l *IndexedLayout) { l.Data = 1 << 20 }, "don't fit"},
		{"data before", func(l *IndexedLayout) { l.Data = -64 }, "don't fit"},
		{"data unaligned", func(l *IndexedLayout) { l.Data, l.Slots = 4, 4 }, "not aligned"},
		{"producer outside", func(l *IndexedLayout) { l.Producer = 1 << 20 }, "outside"},
		{"consumer unaligned", func(l *IndexedLayout) { l.Consumer = 2 }, "not aligned"},
	} {
		l := good
		c.change(&l)
		_, err := NewIndexedProducer[element](r, l)
		checkError(t, c.name, err, c.want)
		_, err = NewIndexedConsumer[element](r, l)
		checkError(t, c.name, err, c.want)
	}
}

func TestElementTypes(t *testing.T) {
	type host struct {
		_ structs.HostLayout
		A uint64
		B [4]uint16
	}
	r := heap(t, 256)
	_, err := NewFlagProducer[host](r, 2, 8)
	checkError(t, "host layout", err, "")
	_, err = NewFlagProducer[struct {
		A uint64
		B *uint64
	}](r, 2, 0)
	checkError(t, "pointer", err, "not plain")
	_, err = NewFlagProducer[struct{ A []byte }](r, 2, 0)
	checkError(t, "slice", err, "not plain")
	_, err = NewFlagProducer[struct {
		A uint32
		B [2]bool
	}](r, 2, 0)
	checkError(t, "bool", err, "not plain")
	_, err = NewFlagProducer[struct{}](r, 2, 0)
	checkError(t, "nothing", err, "can't stand")
	_, err = NewFlagProducer[[8]uint8](r, 2, 0)
	checkError(t, "bytes", err, "no aligned word")
}

func checkError(t *testing.T, name any, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%v: %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%v: error %v, want one with %q", name, err, want)
	}
}
