//go:build gc && !race

package mmap

import "sync/atomic"

// StoreRelease stores v in w with release ordering: a side that loads v also sees all earlier
// stores. Later loads and stores may happen before it. The Store of sync/atomic also waits
// until others can see v, with a locked instruction that takes about 5 ns on amd64. amd64
// and Go's compiler both keep stores behind earlier loads and stores; see the package's
// documentation.
//
// C: atomic_store_explicit with memory_order_release
func StoreRelease(w *atomic.Uint32, v uint32) { *plainWord(w) = v }

// StoreRelease64 is like StoreRelease, for 8 bytes.
func StoreRelease64(w *atomic.Uint64, v uint64) { *plainQuad(w) = v }
