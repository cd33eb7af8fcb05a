package fakeverbs

import (
	"testing"

	"github.com/goverbs/goverbs/mmap"
)

// TestOwn: memory is used again when all have let go of it, and not before, and is zero then.
func TestOwn(t *testing.T) {
	for name, c := range map[string]struct {
		from *[mostPages + 1]spare
		rest int
	}{"the kernel's": {newSpares(0), 0}, "user space's": {newSpares(3), 3}} {
		t.Run(name, func(t *testing.T) {
			size := 2 * PageSize
			o := newOwn(c.from, size)
			one, two := view(t, o, size), view(t, o, 8)
			two.Bytes()[7] = 1
			if one.Bytes()[7] != 1 {
				t.Error("two views of a queue differ")
			}
			closed(t, one)
			if other := newOwn(c.from, size); other == o {
				t.Fatal("memory that somebody holds was given away")
			}
			closed(t, two)
			for range c.rest {
				other := newOwn(c.from, size)
				if other == o {
					t.Fatal("memory of user space was given away at once")
				}
				closed(t, view(t, other, size))
			}
			if again := newOwn(c.from, size); again != o || again.bytes[7] != 0 {
				t.Error("memory is not used again, or not zero")
			}
		})
	}
}

// TestOwnLong: of long memory none is kept, of short memory only some.
func TestOwnLong(t *testing.T) {
	from := newSpares(0)
	for _, pages := range []int{mostPages + 1, mostPages, 1} {
		var held []*mmap.Region
		for range mostSpare + 1 {
			held = append(held, view(t, newOwn(from, pages*PageSize), PageSize))
		}
		for _, r := range held {
			closed(t, r)
		}
	}
	for pages := range from {
		if n := len(from[pages].queue); n > mostSpare || n*pages*PageSize > mostBytes {
			t.Errorf("%d pieces of %d pages are kept", n, pages)
		}
	}
}

func view(t *testing.T, o *own, length int) *mmap.Region {
	t.Helper()
	r, err := o.region(length)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closed(t *testing.T, r *mmap.Region) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
