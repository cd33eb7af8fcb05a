package mlx5

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
)

// record is a doorbell record, two big-endian words from which the device reads how far a
// queue is filled. A QP has a word for receives and one for sends, a CQ one for the
// consumed entries and one that arms it, and an SRQ one.
type record struct {
	page *recordPage
	slot int
	addr uint64
	word [2]*atomic.Uint32
}

// The words of a QP's record, and of a CQ's.
const (
	recvWord     = 0
	sendWord     = 1
	consumedWord = 0
	armWord      = 1
)

// set stores a number, which the device sees only after all earlier stores.
func (r *record) set(word int, v uint32) { mmap.StoreRelease(r.word[word], be32(v)) }

// records hands out records, one per cache line, of pages that live as long as the device:
// the kernel pins a page once for all the records in it.
type records struct {
	mu    sync.Mutex
	pages []*recordPage
	page  int // bytes
	line  int // bytes between records
	alloc func(length int, opts *mmap.AnonymousOptions) (*mmap.Region, error)
}

type recordPage struct {
	region *mmap.Region
	line   int
	taken  []uint64 // one bit per record
}

// take returns a zeroed record.
func (r *records) take() (record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pages {
		if slot, ok := p.take(); ok {
			return p.record(slot)
		}
	}
	region, err := r.alloc(r.page, nil)
	if err != nil {
		return record{}, fmt.Errorf("a page of doorbell records: %w", err)
	}
	p := &recordPage{region: region, line: r.line, taken: make([]uint64, (region.Len()/r.line+63)/64)}
	r.pages = append(r.pages, p)
	slot, _ := p.take()
	return p.record(slot)
}

// give takes a record back. The kernel must no longer use it.
func (r *records) give(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.page.taken[rec.slot/64] &^= 1 << (rec.slot % 64)
}

func (p *recordPage) take() (slot int, ok bool) {
	for i, word := range p.taken {
		slot := 64*i + bits.TrailingZeros64(^word)
		if ^word != 0 && (slot+1)*p.line <= p.region.Len() {
			p.taken[i] |= 1 << (slot % 64)
			return slot, true
		}
	}
	return 0, false
}

func (p *recordPage) record(slot int) (rec record, err error) {
	offset := slot * p.line
	rec = record{page: p, slot: slot, addr: p.region.Addr() + uint64(offset)}
	for i := range rec.word {
		if rec.word[i], err = p.region.Word(offset + 4*i); err != nil {
			return record{}, err
		}
		rec.word[i].Store(0)
	}
	return rec, nil
}
