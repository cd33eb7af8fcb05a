//go:build !amd64 && !arm64

package mmap

import (
	"math/bits"
	"sync/atomic"
)

// These architectures have no devices: pages serve models only.

func store32(p *Page, offset int, v uint32) {
	if bits.RotateLeft64(uint64(offset), -2) >= p.words {
		p.reportWord(StorePlain, offset, 4, uint64(v))
		return
	}
	elementFrom[atomic.Uint32](p.start, uint64(offset)).Store(v)
}

func store64(p *Page, offset int, v uint64) {
	if bits.RotateLeft64(uint64(offset), -3) >= p.quads {
		p.reportWord(StorePlain, offset, 8, v)
		return
	}
	elementFrom[atomic.Uint64](p.start, uint64(offset)).Store(v)
}

func storeWC32(p *Page, offset int, v uint32) {
	if p.words == 0 {
		p.reportWord(StoreWC, offset, 4, uint64(v))
		return
	}
	store32(p, offset, v)
}

func storeWC64(p *Page, offset int, v uint64) {
	if p.words == 0 {
		p.reportWord(StoreWC, offset, 8, v)
		return
	}
	store64(p, offset, v)
}

func copy64(p *Page, offset int, from *[64]byte) {
	if bits.RotateLeft64(uint64(offset), -6) >= p.lines {
		p.report(Store{Kind: StoreCopy, Offset: offset, Size: 64}, from)
		return
	}
	*elementFrom[[64]byte](p.start, uint64(offset)) = *from
}

func copyWC(p *Page, offset int, from slotsStart, n int) {
	first, lines := bits.RotateLeft64(uint64(offset), -6), bits.RotateLeft64(uint64(n), -6)
	if first >= p.lines || lines-1 >= p.lines-first { // also no lines, and a part of a line
		p.reportCopies(offset, bytesFrom(from, n))
		return
	}
	copy(bytesFrom(p.start, offset+n)[offset:], bytesFrom(from, n))
}

func startWC(p *Page) {
	if p.words == 0 {
		p.report(Store{Kind: StartWC}, nil)
	}
}

func fromDevice() {}
