//go:build !amd64 || !gc || race

package mmap

import "sync/atomic"

// StoreRelease stores v in w so that whoever sees it there sees all that was
// written before. Here it is Store of sync/atomic, which promises more.
//
// C: atomic_store_explicit with memory_order_release
func StoreRelease(w *atomic.Uint32, v uint32) { w.Store(v) }

// StoreRelease64 is StoreRelease of 8 bytes.
func StoreRelease64(w *atomic.Uint64, v uint64) { w.Store(v) }
