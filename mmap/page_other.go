//go:build !amd64 && !arm64

package mmap

import "sync/atomic"

// These architectures have no devices: pages serve models only.

func store32(to slotsStart, v uint32) { elementFrom[atomic.Uint32](to, 0).Store(v) }

func store64(to slotsStart, v uint64) { elementFrom[atomic.Uint64](to, 0).Store(v) }

func storeWC32(to slotsStart, v uint32) { store32(to, v) }

func storeWC64(to slotsStart, v uint64) { store64(to, v) }

func copy64(to slotsStart, from *[64]byte) { *elementFrom[[64]byte](to, 0) = *from }

func copyWC(to, from slotsStart, n int) {
	for i := uint64(0); i < uint64(n); i += 64 {
		*elementFrom[[64]byte](to, i) = *elementFrom[[64]byte](from, i)
	}
}

func startWC() {}

func fromDevice() {}
