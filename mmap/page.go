package mmap

import (
	"fmt"
	"math/bits"
	"sync"
)

// Page is a mapping of a device's doorbells, registers, or windows for whole work requests.
// Its methods are the only way to store to a device. Each store is one instruction, or one
// assembly function that includes its barriers, so the compiler cannot drop, merge, split or
// move it.
//
// An offset is in bytes from the start of the page, and must be a multiple of the size of the
// store. Another offset panics, as an index outside a slice does: check offsets that come
// from the kernel once, with [Page.Holds].
//
// Stores to different registers may be made concurrently. Stores to the same register need a
// lock that covers the doorbell record as well. Nothing may be stored after Close.
type Page struct {
	start slotsStart
	// Number of words of 4, 8 and 64 bytes. An offset rotated right by the size of the word
	// is below that number unless it is outside or not aligned. All three are 0 in a watched
	// page, so that one comparison checks both the bounds and the watcher.
	words, quads, lines uint64

	region  *Region
	watcher func(Store)
	mu      sync.Mutex // serializes the stores that the watcher gets, not the load barriers, and guards buffer
	buffer  [64]byte
}

// Store is one access to a watched [Page].
type Store struct {
	Page   *Page
	Kind   StoreKind
	Offset int
	Size   int       // bytes; 0 with StartWC
	Value  uint64    // of 4 or 8 bytes
	Bytes  *[64]byte // of 64 bytes; valid until the watcher returns
}

// StoreKind is the method that made a store, and so the barriers that it has.
type StoreKind uint8

// The methods of a Page.
const (
	StorePlain  StoreKind = iota // Store32, Store64
	StoreWC                      // StoreWC32, StoreWC64
	StartWC                      // StartWC, and the start of CopyWC, with its offset: no store, only the barrier
	StoreCopy                    // Copy64, and each 64 bytes of CopyWC
	FlushWC                      // the end of CopyWC, with its offset: no store, only the barrier
	LoadBarrier                  // FromDevice: no store, and a barrier for loads
)

// NewPage returns a Page of a region, and takes ownership of the region. The region's length
// must be a multiple of 64 bytes. If watcher is not nil, nothing is stored in the region.
// Instead every store is passed to watcher, in order and on the goroutine that stores. That
// goroutine may hold locks, so a watcher should only record the store and wake another
// goroutine. It must not store to the page. Models of devices use it.
func NewPage(r *Region, watcher func(Store)) (*Page, error) {
	memory := r.Bytes()
	if len(memory) == 0 || len(memory)%64 != 0 || address(memory)%64 != 0 {
		return nil, failed("create", "device page", fmt.Errorf("%d bytes at %#x: address and length must be multiples of 64", len(memory), r.Addr()))
	}
	p := &Page{start: startOf(memory, 0), region: r, watcher: watcher}
	if watcher == nil {
		n := uint64(len(memory))
		p.words, p.quads, p.lines = n/4, n/8, n/64
	}
	return p, nil
}

// MapPage maps length bytes of fd from offset on, for stores only. The kernel chooses how the
// processor caches them.
//
// C: mmap with PROT_WRITE and MAP_SHARED
func MapPage(fd int, offset int64, length int) (*Page, error) {
	r, err := Map(fd, offset, length, ProtWrite)
	if err != nil {
		return nil, err
	}
	return NewPage(r, nil)
}

// Len returns the length in bytes.
func (p *Page) Len() int { return p.region.Len() }

// Holds reports whether size bytes (4, 8 or 64) can be stored at an offset.
func (p *Page) Holds(offset uint64, size int) bool {
	n := uint64(size)
	return bits.OnesCount64(n) == 1 && n <= 64 && offset%n == 0 && offset < uint64(p.Len())
}

// Close unmaps the page. A second Close returns an error that matches [net.ErrClosed].
func (p *Page) Close() error {
	if p == nil {
		return failed("close", "device page", errNil)
	}
	p.words, p.quads, p.lines = 0, 0, 0
	return p.region.Close()
}

// report passes a store to the watcher, and panics if the store is outside the page. Providers
// check offsets with Holds, so no input causes the panic. The watcher gets a copy of the 64
// bytes at from: otherwise they would escape from the caller's stack to the heap.
func (p *Page) report(s Store, from *[64]byte) {
	if s.Size > 0 && !p.Holds(uint64(s.Offset), s.Size) || p.watcher == nil || p.region.closed.Load() {
		panic(fmt.Sprintf("mmap: store of %d bytes at offset %d, outside a page of %d bytes or after Close", s.Size, s.Offset, p.Len()))
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

func (p *Page) reportWord(kind StoreKind, offset, size int, v uint64) {
	p.report(Store{Kind: kind, Offset: offset, Size: size, Value: v}, nil)
}

// Store32 stores v at an offset after all earlier stores to memory are visible to the device.
//
// C: udma_to_device_barrier, mmio_write32
func (p *Page) Store32(offset int, v uint32) { store32(p, offset, v) }

// Store64 is like Store32, for 8 bytes.
//
// C: udma_to_device_barrier, mmio_write64
func (p *Page) Store64(offset int, v uint64) { store64(p, offset, v) }

// StoreWC32 stores v at an offset of a write-combining page. The store follows all earlier
// stores to memory and to such pages, and has left the write-combining buffer when StoreWC32
// returns.
//
// C: mmio_wc_start, mmio_write32, mmio_flush_writes
func (p *Page) StoreWC32(offset int, v uint32) { storeWC32(p, offset, v) }

// StoreWC64 is like StoreWC32, for 8 bytes.
//
// C: mmio_wc_start, mmio_write64, mmio_flush_writes
func (p *Page) StoreWC64(offset int, v uint64) { storeWC64(p, offset, v) }

// StartWC orders all earlier stores, to memory and to write-combining pages, before the
// copies that follow.
//
// C: mmio_wc_start
func (p *Page) StartWC() { startWC(p) }

// Copy64 stores 64 bytes at an offset, with one write if the processor can. Call StartWC
// before the first of several copies, and StoreWC32 or StoreWC64, which flush, after the last.
//
// C: mmio_memcpy_x64
func (p *Page) Copy64(offset int, b *[64]byte) { copy64(p, offset, b) }

// CopyWC stores b at an offset in units of 64 bytes: StartWC, copies, flush. The length of b
// must be a multiple of 64. The device gets a short work request this way without reading
// memory.
//
// C: mmio_wc_start, mmio_memcpy_x64, mmio_flush_writes
func (p *Page) CopyWC(offset int, b []byte) { copyWC(p, offset, slotsStart(pointer(b)), len(b)) }

func (p *Page) reportCopies(offset int, b []byte) {
	if len(b) == 0 || len(b)%64 != 0 { // a bug of the caller: providers round up
		panic("mmap: CopyWC: the length is not a multiple of 64")
	}
	start := offset
	p.report(Store{Kind: StartWC, Offset: start}, nil)
	for ; len(b) > 0; b = b[64:] {
		p.report(Store{Kind: StoreCopy, Offset: offset, Size: 64}, (*[64]byte)(b))
		offset += 64
	}
	p.report(Store{Kind: FlushWC, Offset: start}, nil)
}

// Watched reports whether a watcher gets what is done with the page.
func (p *Page) Watched() bool { return p.watcher != nil }

// FromDevice is like the function [FromDevice], for memory that the device of the page wrote. A
// watcher gets it, so a model can find out what was loaded before. It may get it during another
// call: a model that writes a completion may let its test poll.
func (p *Page) FromDevice() {
	if p.watcher != nil {
		p.watcher(Store{Page: p, Kind: LoadBarrier})
	}
	fromDevice()
}

// FromDevice orders the load of the word by which a device handed over memory before the
// loads of that memory that follow.
//
// C: udma_from_device_barrier
func FromDevice() { fromDevice() }

// Format implements [fmt.Formatter]. It prints the page's region, never the memory.
func (p *Page) Format(f fmt.State, verb rune) { p.region.Format(f, verb) }
