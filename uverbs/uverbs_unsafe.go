package uverbs

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// sendWRSize is the least size of a work request that POST_SEND will hear of,
// even when it carries none.
const sendWRSize = uint32(unsafe.Sizeof(abi.IbUverbsSendWr{}))

// address is where a slice lies. It means something for as long as the slice is pinned, or is
// not of Go's heap.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// gidBytes views a GID, which the header declares as two words, as its bytes in
// network order.
func gidBytes(words *[2]uint64) verbs.GID { return *(*verbs.GID)(unsafe.Pointer(words)) }
