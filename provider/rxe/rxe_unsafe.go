package rxe

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// An entry has the layout of the start of a WC; this compiles only then.
const _ = -(unsafe.Offsetof(uverbs.WC{}.DLIDPathBits) ^ unsafe.Offsetof(abi.IbUverbsWc{}.DlidPathBits)) -
	(unsafe.Offsetof(uverbs.WC{}.InvalidatedRKey) ^ unsafe.Sizeof(abi.IbUverbsWc{}))

// copyCQE copies an entry out of shared memory, each byte once.
func copyCQE(e *abi.IbUverbsWc, wc *uverbs.WC) {
	*(*abi.IbUverbsWc)(unsafe.Pointer(wc)) = *e
	wc.InvalidatedRKey = 0
}

// sgesIn views the part of an entry behind its fixed part as SGEs; an entry starts
// at a multiple of 8, and so does what follows.
func sgesIn(tail []byte) []abi.RxeSge {
	return unsafe.Slice((*abi.RxeSge)(unsafe.Pointer(unsafe.SliceData(tail))), len(tail)/sgeSize)
}

// arm views the union in struct rxe_send_wr as one of its arms, none of which is
// larger.
func arm[T any](wr *abi.RxeSendWr) *T { return (*T)(unsafe.Pointer(&wr.Wr)) }
