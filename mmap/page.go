package mmap

import (
	"fmt"
	"math/bits"
	"sync"
)

// Page is a mapping through which a program talks to a device: doorbells,
// registers, windows for whole work requests. Its methods are the only way to store
// to a device. Each store is one instruction, or one assembly function with its
// barriers in it, so the compiler can't drop, merge, split or move it.
//
// An offset is in bytes from the start of the page and a multiple of the size of
// the store. Another offset panics, as an index outside a slice does: check what the
// kernel says once, with [Page.Holds].
//
// Stores to different registers may be made concurrently. Stores that share a
// register need a lock that covers the doorbell record as well. Nothing may be
// stored after Close.
type Page struct {
	start slotsStart
	// How many words of 4, 8 and 64 bytes there are: an offset rotated right by the
	// size of the word is below that, or is outside or not aligned. All three are 0
	// on a watched page, so that one compare serves for bounds and watcher.
	words, quads, lines uint64

	region  *Region
	watcher func(Store)
	mu      sync.Mutex // orders what the watcher sees, and guards buffer
	buffer  [64]byte
}

// Store is one access to a watched [Page].
type Store struct {
	Page   *Page
	Kind   StoreKind
	Offset int
	Size   int       // bytes; 0 with StartWC
	Value  uint64    // of 4 or 8 bytes
	Bytes  *[64]byte // of 64 bytes; good until the watcher returns
}

// StoreKind says which method made a store, and so which barriers it has.
type StoreKind uint8

// The methods of a Page.
const (
	StorePlain StoreKind = iota // Store32, Store64
	StoreWC                     // StoreWC32, StoreWC64
	StartWC                     // StartWC, and the start of CopyWC: no store, only the barrier
	StoreCopy                   // Copy64, and each 64 bytes of CopyWC
	FlushWC                     // the end of CopyWC: no store, only the barrier
)

// NewPage makes a Page of a region, whose length must be a multiple of 64 bytes, and
// owns it from then on. With a watcher nothing is stored in the region: the watcher
// gets every store instead, in order and on the goroutine that stores. That
// goroutine may hold locks, so a watcher only notes what it got and wakes somebody.
// It must not store to the page itself.
func NewPage(r *Region, watcher func(Store)) (*Page, error) {
	memory := r.Bytes()
	if len(memory) == 0 || len(memory)%64 != 0 || address(memory)%64 != 0 {
		return nil, fmt.Errorf("mmap: %d bytes at %#x are no page of a device", len(memory), r.Addr())
	}
	p := &Page{start: startOf(memory, 0), region: r, watcher: watcher}
	if watcher == nil {
		n := uint64(len(memory))
		p.words, p.quads, p.lines = n/4, n/8, n/64
	}
	return p, nil
}

// MapPage maps length bytes of fd from offset on, for stores only. How the
// processor caches them is the kernel's choice.
//
// C: mmap with PROT_WRITE and MAP_SHARED
func MapPage(fd int, offset int64, length int) (*Page, error) {
	r, err := Map(fd, offset, length, ProtWrite)
	if err != nil {
		return nil, err
	}
	return NewPage(r, nil)
}

// Len is the length in bytes.
func (p *Page) Len() int { return p.region.Len() }

// Holds tells whether size bytes (4, 8 or 64) can be stored at an offset.
func (p *Page) Holds(offset uint64, size int) bool {
	n := uint64(size)
	return bits.OnesCount64(n) == 1 && n <= 64 && offset%n == 0 && offset < uint64(p.Len())
}

// Close unmaps the page.
func (p *Page) Close() error {
	p.words, p.quads, p.lines = 0, 0, 0
	return p.region.Close()
}

// report handles a store that is watched, and panics at one that is outside. Providers
// compute offsets from numbers that they checked with Holds, so no input gets here. The
// watcher gets a copy of the 64 bytes at from: those are often on the caller's stack, and
// would have to be on the heap.
func (p *Page) report(s Store, from *[64]byte) {
	if s.Size > 0 && !p.Holds(uint64(s.Offset), s.Size) || p.watcher == nil || p.region.closed.Load() {
		panic(fmt.Sprintf("mmap: a store of %d bytes at offset %d of a page of %d bytes, or after its end", s.Size, s.Offset, p.Len()))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Page = p
	if from != nil {
		p.buffer = *from
		s.Bytes = &p.buffer
	}
	p.watcher(s)
}
