package uverbs

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// sendWRSize is the smallest size of a work request that POST_SEND accepts, even if the
// command has no work requests.
const sendWRSize = uint32(unsafe.Sizeof(abi.IbUverbsSendWr{}))

// address returns the address of a slice. It stays valid while the slice is pinned, or if the
// slice is not on Go's heap.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// gidBytes returns a GID, which the kernel's header declares as two words, as bytes in network
// order.
func gidBytes(words *[2]uint64) verbs.GID { return *(*verbs.GID)(unsafe.Pointer(words)) }
