package sandbox

import (
	"os"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// TestSameStore: a doorbell that equals the one before it is a doorbell too. A queue pair with the number
// of one that was destroyed rings such a doorbell first.
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
