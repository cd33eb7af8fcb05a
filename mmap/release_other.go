//go:build !amd64 || !gc || race

package mmap

import "sync/atomic"

// StoreRelease stores v in w so that whoever sees it there sees all that was
// written before. Here it is Store of sync/atomic, which promises more.
//
// C: atomic_store_explicit with memory_order_release
func StoreRelease(w *atomic.Uint32, v uint32) { w.Store(v) }
