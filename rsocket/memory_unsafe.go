package rsocket

import (
	"sync/atomic"
	"unsafe"
)

// loadWord and storeWord access the first 8 bytes of b atomically. b is aligned to 8 bytes, as parts of a
// memory region are.
func loadWord(b []byte) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[:8][0]))) }

func storeWord(b []byte, v uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[:8][0])), v) }
