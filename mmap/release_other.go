//go:build !amd64 || !gc || race

package mmap

import "sync/atomic"

// StoreRelease stores v in w with release ordering: a side that loads v also sees all earlier
// stores. On this platform it is the Store of sync/atomic, which is stronger.
//
// C: atomic_store_explicit with memory_order_release
func StoreRelease(w *atomic.Uint32, v uint32) { w.Store(v) }

// StoreRelease64 is like StoreRelease, for 8 bytes.
func StoreRelease64(w *atomic.Uint64, v uint64) { w.Store(v) }
