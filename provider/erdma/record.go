package erdma

import (
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
)

// record is a slot of doorbell records, two words: the values that were last stored to
// doorbells, for devices that read them there. A QP has one for sends and one for receives,
// a CQ has one.
type record struct {
	page *recordPage
	slot int
	addr uint64
	word [2]*atomic.Uint64
}

const recordSize = 16

// records hands out slots of pages that live as long as the device: the kernel pins a page
// once for all the slots in it.
type records struct {
	mu    sync.Mutex
	pages []*recordPage
	alloc func(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
}

type recordPage struct {
	region *mmap.Region
	taken  []uint64 // one bit per slot
}

// take returns a zeroed slot.
func (r *records) take() (record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pages {
		if slot, ok := p.take(); ok {
			return p.record(slot)
		}
	}
	p, err := r.grow()
	if err != nil {
		return record{}, err
	}
	slot, _ := p.take()
	return p.record(slot)
}

func (r *records) grow() (*recordPage, error) {
	region, err := r.alloc(os.Getpagesize(), nil)
	if err != nil {
		return nil, fmt.Errorf("a page of doorbell records: %w", err)
	}
	p := &recordPage{region: region, taken: make([]uint64, region.Len()/recordSize/64)}
	r.pages = append(r.pages, p)
	return p, nil
}

// give takes a slot back. The kernel must no longer use it.
func (r *records) give(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.page.taken[rec.slot/64] &^= 1 << (rec.slot % 64)
}

func (p *recordPage) take() (slot int, ok bool) {
	for i, word := range p.taken {
		if free := bits.TrailingZeros64(^word); free < 64 {
			p.taken[i] |= 1 << free
			return 64*i + free, true
		}
	}
	return 0, false
}

func (p *recordPage) record(slot int) (rec record, err error) {
	rec = record{page: p, slot: slot, addr: p.region.Addr() + uint64(slot*recordSize)}
	for i := range rec.word {
		if rec.word[i], err = p.region.Word64(slot*recordSize + 8*i); err != nil {
			return record{}, err
		}
		rec.word[i].Store(0)
	}
	return rec, nil
}
