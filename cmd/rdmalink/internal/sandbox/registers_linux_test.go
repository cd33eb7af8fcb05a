package sandbox

import (
	"os"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// TestSameStore checks that a doorbell that equals the one before it is a doorbell too. A queue pair with the number of
// one that was destroyed rings such a doorbell first.
func TestSameStore(t *testing.T) {
	page, err := mmap.Anonymous(os.Getpagesize(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	word, err := page.Word64(64)
	if err != nil {
		t.Fatal(err)
	}
	p := &registerPage{page: page, seen: make([]byte, page.Len())}
	kernel := new(fakeverbs.Kernel)
	kernel.Close()
	for i := range 3 {
		word.Store(7)
		if !p.look(kernel, func() {}) {
			t.Errorf("store %d is not seen", i)
		}
		if p.look(kernel, func() {}) {
			t.Errorf("store %d is seen twice", i)
		}
	}
}

// TestUnseen checks that the model finds a store that was not polled, and one that is being passed to it.
func TestUnseen(t *testing.T) {
	page, err := mmap.Anonymous(os.Getpagesize(), nil)
	if err != nil {
		t.Fatal(err)
	}
	word, err := page.Word64(64)
	if err != nil {
		t.Fatal(err)
	}
	kernel := new(fakeverbs.Kernel)
	kernel.Close()
	p := &registerPage{key: 7, page: page, seen: make([]byte, page.Len())}
	var r registers
	r.polled.Store(p.key, p)
	want := func(value uint64, there bool) {
		t.Helper()
		if v, ok := r.unseen(7, 64); ok != there || ok && v != value {
			t.Errorf("%#x, %t; want %#x, %t", v, ok, value, there)
		}
		if v, ok := r.unseen(7, 72); ok {
			t.Errorf("%#x is next to it", v)
		}
	}
	want(0, false)
	word.Store(3)
	want(3, true)
	p.look(kernel, func() {
		want(3, true)
		word.Store(5)
		want(5, true)
	})
	want(5, true)
	p.look(kernel, func() { want(5, true) })
	want(0, false)
	if _, ok := r.unseen(8, 64); ok {
		t.Error("a page that is not there has a store")
	}
	page.Close()
	if _, ok := r.unseen(7, 64); ok {
		t.Error("a page that is unmapped has a store")
	}
}
