//go:build gc && !race

package mmap

import "sync/atomic"

// StoreRelease stores v in w so that whoever sees it there sees all that was
// written before; what is read or written after may come first. Where that is
// enough it is cheaper than Store of sync/atomic, which also waits until others
// can see v: on amd64 a locked instruction, about 5 ns. amd64 keeps stores behind
// earlier loads and stores by itself, and so does Go's compiler; the package's
// documentation says more.
//
// C: atomic_store_explicit with memory_order_release
func StoreRelease(w *atomic.Uint32, v uint32) { *plainWord(w) = v }

// StoreRelease64 is StoreRelease of 8 bytes.
func StoreRelease64(w *atomic.Uint64, v uint64) { *plainQuad(w) = v }
