package mmap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/regions"
)

const pageSize = 4096

func newPage(t testing.TB, watcher func(Store)) (*Page, []byte) {
	t.Helper()
	r := anonymous(t, pageSize)
	return must[*Page](t)(NewPage(r, watcher)), r.Bytes()
}

func counted() *[64]byte {
	var b [64]byte
	for i := range b {
		b[i] = byte(i + 1)
	}
	return &b
}

func TestPageStores(t *testing.T) {
	p, memory := newPage(t, nil)
	block := counted()
	two := slices.Concat(block[:], bytes.Repeat([]byte{7}, 64))
	p.Store32(4, 0x01020304)
	p.Store64(8, 0x05060708090a0b0c)
	p.StoreWC32(pageSize-4, 0x11121314)
	p.StoreWC64(16, 0x15161718191a1b1c)
	p.StartWC()
	p.Copy64(64, block)
	p.CopyWC(128, two)
	p.FromDevice()
	FromDevice()
	if watched, _ := newPage(t, func(Store) {}); p.Watched() || !watched.Watched() {
		t.Error("which page is watched")
	}
	want := make([]byte, pageSize)
	binary.LittleEndian.PutUint32(want[4:], 0x01020304)
	binary.LittleEndian.PutUint64(want[8:], 0x05060708090a0b0c)
	binary.LittleEndian.PutUint32(want[pageSize-4:], 0x11121314)
	binary.LittleEndian.PutUint64(want[16:], 0x15161718191a1b1c)
	copy(want[64:], block[:])
	copy(want[128:], two)
	if !bytes.Equal(memory, want) {
		t.Errorf("the page holds\n% x, want\n% x", memory[:256], want[:256])
	}
}

// stores has each method by its size.
func stores(p *Page, at int) map[string]func() {
	return map[string]func(){
		"Store32": func() { p.Store32(at, 1) }, "StoreWC32": func() { p.StoreWC32(at, 1) },
		"Store64": func() { p.Store64(at, 1) }, "StoreWC64": func() { p.StoreWC64(at, 1) },
		"Copy64": func() { p.Copy64(at, counted()) }, "CopyWC": func() { p.CopyWC(at, counted()[:]) },
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestPageBounds checks that every store panics outside the page and at unaligned offsets,
// watched or not, and works at the last offset.
func TestPageBounds(t *testing.T) {
	sizes := map[string]int{"Store32": 4, "StoreWC32": 4, "Store64": 8, "StoreWC64": 8, "Copy64": 64, "CopyWC": 64}
	for _, watcher := range []func(Store){nil, func(Store) {}} {
		p, memory := newPage(t, watcher)
		for name, size := range sizes {
			for _, at := range []int{-size, -1, size - 1, size + 1, size + size/2, pageSize - size + 1, pageSize - 1, pageSize, math.MaxInt &^ 63, math.MinInt} {
				if !panics(stores(p, at)[name]) || at >= 0 && p.Holds(uint64(at), size) {
					t.Errorf("%s at %d, watched %v: accepted", name, at, watcher != nil)
				}
			}
			for _, at := range []int{0, size, pageSize - size} {
				if panics(stores(p, at)[name]) || !p.Holds(uint64(at), size) {
					t.Errorf("%s at %d, watched %v: refused", name, at, watcher != nil)
				}
			}
		}
		if !panics(func() { p.CopyWC(pageSize-64, make([]byte, 128)) }) || !panics(func() { p.CopyWC(0, nil) }) || !panics(func() { p.CopyWC(0, make([]byte, 65)) }) {
			t.Error("CopyWC takes what does not fit, nothing, or 65 bytes")
		}
		if untouched := bytes.Equal(memory, make([]byte, pageSize)); untouched != (watcher != nil) {
			t.Errorf("watched %v: the memory is as it was: %v", watcher != nil, untouched)
		}
	}
	for _, size := range []int{0, 3, 128} {
		if p, _ := newPage(t, nil); p.Holds(0, size) {
			t.Errorf("a page has stores of %d bytes", size)
		}
	}
}

// TestWatcher checks that a watcher gets each store and barrier with its value, in order.
func TestWatcher(t *testing.T) {
	var got []string
	p, _ := newPage(t, func(s Store) {
		line := fmt.Sprintf("%d %d %d %#x", s.Kind, s.Offset, s.Size, s.Value)
		if s.Bytes != nil {
			line += fmt.Sprintf(" %d…%d", s.Bytes[0], s.Bytes[63])
		}
		got = append(got, line)
	})
	p.Store32(4, 1)
	p.Store64(8, 1<<40)
	p.StoreWC32(0, 2)
	p.StoreWC64(16, 3)
	p.StartWC()
	p.Copy64(64, counted())
	p.CopyWC(128, slices.Concat(counted()[:], bytes.Repeat([]byte{7}, 64)))
	p.FromDevice()
	want := []string{
		"0 4 4 0x1", "0 8 8 0x10000000000", "1 0 4 0x2", "1 16 8 0x3", "2 0 0 0x0", "3 64 64 0x0 1…64",
		"2 128 0 0x0", "3 128 64 0x0 1…64", "3 192 64 0x0 7…7", "4 128 0 0x0", "5 0 0 0x0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPageClosed checks that a store after Close panics.
func TestPageClosed(t *testing.T) {
	for _, watcher := range []func(Store){nil, func(Store) { t.Error("a store after Close") }} {
		p := must[*Page](t)(NewPage(must[*Region](t)(Wrap(aligned(pageSize))), watcher))
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for name, f := range stores(p, 0) {
			if !panics(f) {
				t.Errorf("%s after Close", name)
			}
		}
		if !panics(p.StartWC) {
			t.Error("StartWC after Close")
		}
	}
}

// aligned returns memory of the heap that is aligned like a page.
func aligned(n int) []byte {
	b := make([]byte, n+64)
	return b[(64-address(b)%64)%64:][:n]
}

func TestNewPageRefuses(t *testing.T) {
	b := aligned(pageSize)
	for _, memory := range [][]byte{b[:60], b[8:72]} {
		if p, err := NewPage(must[*Region](t)(Wrap(memory)), nil); err == nil {
			t.Errorf("a page of %d bytes at %#x", p.Len(), address(memory))
		}
	}
	regions.Add(-2) // of the two regions, which are nobody's
}

func TestPageAllocatesNothing(t *testing.T) {
	var seen int
	for _, watcher := range []func(Store){nil, func(s Store) { seen += s.Size }} {
		p, _ := newPage(t, watcher)
		if n := testing.AllocsPerRun(100, func() {
			var wqe [64]byte
			p.Store64(0, 1)
			p.Copy64(64, &wqe)
			p.CopyWC(128, wqe[:])
		}); n != 0 {
			t.Errorf("watched %v: %v allocations", watcher != nil, n)
		}
	}
	if seen == 0 {
		t.Error("nothing was seen")
	}
}

func TestWord64(t *testing.T) {
	r := anonymous(t, pageSize)
	w := must[interface{ Load() uint64 }](t)(r.Word64(pageSize - 8))
	word, _ := r.Word64(pageSize - 8)
	StoreRelease64(word, 1<<40|5)
	if w.Load() != 1<<40|5 || binary.NativeEndian.Uint64(r.Bytes()[pageSize-8:]) != 1<<40|5 {
		t.Errorf("%#x", w.Load())
	}
	for _, off := range []int{-8, 4, pageSize - 4, pageSize} {
		if _, err := r.Word64(off); err == nil {
			t.Errorf("a word at %d", off)
		}
	}
}

// BenchmarkPage measures the cost of bounds and watcher besides the bare store.
func BenchmarkPage(b *testing.B) {
	p, _ := newPage(b, nil)
	watched, _ := newPage(b, func(Store) {})
	wqe := counted()
	b.Run("Store64", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			p.Store64(8, i)
		}
	})
	b.Run("Store64Watched", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			watched.Store64(8, i)
		}
	})
	b.Run("StoreWC64", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			p.StoreWC64(8, i)
		}
	})
	b.Run("Copy64", func(b *testing.B) {
		for b.Loop() {
			p.Copy64(64, wqe)
		}
	})
	b.Run("CopyWC", func(b *testing.B) {
		for b.Loop() {
			p.CopyWC(64, wqe[:])
		}
	})
}
