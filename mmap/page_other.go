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

func copy64(to slotsStart, from *[64]byte) { *elementFrom[[64]byte](to, 0) = *from }

func copyWC(to, from slotsStart, n int) {
	for i := uint64(0); i < uint64(n); i += 64 {
		*elementFrom[[64]byte](to, i) = *elementFrom[[64]byte](from, i)
	}
}

func startWC() {}

func fromDevice() {}
