package mmap

import "math/bits"

// Store32 stores v at an offset once all earlier stores to memory are visible to
// the device.
//
// C: udma_to_device_barrier, mmio_write32
func (p *Page) Store32(offset int, v uint32) {
	if bits.RotateLeft64(uint64(offset), -2) >= p.words {
		p.report(Store{Kind: StorePlain, Offset: offset, Size: 4, Value: uint64(v)}, nil)
		return
	}
	store32(at(p.start, offset), v)
}

// Store64 is Store32 of 8 bytes.
//
// C: udma_to_device_barrier, mmio_write64
func (p *Page) Store64(offset int, v uint64) {
	if bits.RotateLeft64(uint64(offset), -3) >= p.quads {
		p.report(Store{Kind: StorePlain, Offset: offset, Size: 8, Value: v}, nil)
		return
	}
	store64(at(p.start, offset), v)
}

// StoreWC32 stores v at an offset of a page that may combine writes: after all
// earlier stores to memory and to such pages, and so that it is on its way to the
// device when StoreWC32 returns.
//
// C: mmio_wc_start, mmio_write32, mmio_flush_writes
func (p *Page) StoreWC32(offset int, v uint32) {
	if bits.RotateLeft64(uint64(offset), -2) >= p.words {
		p.report(Store{Kind: StoreWC, Offset: offset, Size: 4, Value: uint64(v)}, nil)
		return
	}
	storeWC32(at(p.start, offset), v)
}

// StoreWC64 is StoreWC32 of 8 bytes.
//
// C: mmio_wc_start, mmio_write64, mmio_flush_writes
func (p *Page) StoreWC64(offset int, v uint64) {
	if bits.RotateLeft64(uint64(offset), -3) >= p.quads {
		p.report(Store{Kind: StoreWC, Offset: offset, Size: 8, Value: v}, nil)
		return
	}
	storeWC64(at(p.start, offset), v)
}

// StartWC puts all earlier stores, to memory and to write-combining pages, before
// the copies that follow.
//
// C: mmio_wc_start
func (p *Page) StartWC() {
	if p.words == 0 {
		p.report(Store{Kind: StartWC}, nil)
		return
	}
	startWC()
}

// Copy64 stores 64 bytes at an offset, as one write where the processor can. Call
// StartWC before the first of several, and StoreWC32 or StoreWC64, which flush, after
// the last.
//
// C: mmio_memcpy_x64
func (p *Page) Copy64(offset int, b *[64]byte) {
	if bits.RotateLeft64(uint64(offset), -6) >= p.lines {
		p.report(Store{Kind: StoreCopy, Offset: offset, Size: 64}, b)
		return
	}
	copy64(at(p.start, offset), b)
}

// CopyWC stores b, whose length must be a multiple of 64, at an offset, 64 bytes
// after 64 bytes: StartWC, copies, flush. It is how a short work request gets to a
// device without a read by the device.
//
// C: mmio_wc_start, mmio_memcpy_x64, mmio_flush_writes
func (p *Page) CopyWC(offset int, b []byte) {
	last := offset + len(b) - 64
	if len(b) == 0 || len(b)%64 != 0 ||
		bits.RotateLeft64(uint64(offset), -6) >= p.lines || bits.RotateLeft64(uint64(last), -6) >= p.lines {
		p.reportCopies(offset, b)
		return
	}
	copyWC(at(p.start, offset), (*[64]byte)(b), len(b))
}

func (p *Page) reportCopies(offset int, b []byte) {
	if len(b) == 0 || len(b)%64 != 0 { // the caller's own mistake: providers round up
		panic("mmap: the length of what CopyWC copies is no multiple of 64")
	}
	p.report(Store{Kind: StartWC}, nil)
	for ; len(b) > 0; b = b[64:] {
		p.report(Store{Kind: StoreCopy, Offset: offset, Size: 64}, (*[64]byte)(b))
		offset += 64
	}
	p.report(Store{Kind: FlushWC}, nil)
}

// FromDevice puts the loads that follow, of what a device wrote to memory, behind
// the load of the word that said it was there.
//
// C: udma_from_device_barrier
func FromDevice() { fromDevice() }
