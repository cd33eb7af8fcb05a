package mlx5

import (
	"testing"

	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRecords checks that records stand a cache line apart, inside pages that are used up first, and
// are used again.
func TestRecords(t *testing.T) {
	for _, line := range []int{8, 32, 64, 128, 4096} {
		pages := 0
		r := records{page: 4096, line: line, alloc: func(n int, _ *mmap.AnonymousOptions) (*mmap.Region, error) {
			pages++
			return mmap.Wrap(make([]byte, n))
		}}
		seen := make(map[uint64]bool)
		var all []record
		for range 1200 {
			rec := providertest.Must[record](t)(r.take())
			if seen[rec.addr] || rec.addr < rec.page.region.Addr() || rec.addr+8 > rec.page.region.Addr()+uint64(rec.page.region.Len()) {
				t.Fatalf("lines of %d: a record at %#x", line, rec.addr)
			}
			seen[rec.addr] = true
			all = append(all, rec)
		}
		if most := (1200 + 4096/line - 1) / (4096 / line); pages > most {
			t.Errorf("lines of %d: %d pages, want %d", line, pages, most)
		}
		before := pages
		for i := range all {
			all[i].set(0, 7)
			r.give(all[i])
			if again := providertest.Must[record](t)(r.take()); again.word[0].Load() != 0 {
				t.Fatal("a record is not zeroed")
			}
		}
		if pages != before {
			t.Errorf("lines of %d: %d pages more", line, pages-before)
		}
		for _, p := range r.pages {
			_ = p.region.Close()
		}
	}
}

// TestGivenBack checks that the parts of closed objects are used again.
func TestGivenBack(t *testing.T) {
	w := newWorld(t, nil)
	var before [2]int
	for i := range 200 {
		if i == 10 {
			before = [2]int{w.k.Calls("ALLOC"), w.k.Calls("UAR_OBJ_ALLOC")}
		}
		cq := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
		srq := providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1}}))
		for _, c := range []interface{ Close() error }{qp, srq, cq} {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := [2]int{w.k.Calls("ALLOC") - 3*190, w.k.Calls("UAR_OBJ_ALLOC")}; got != before {
		t.Errorf("%d pages of records and UARs, and %d before", got, before)
	}
}
