package rxe

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// An entry has the layout of a WC; this compiles only then.
const _ = -(unsafe.Offsetof(verbs.WC{}.DLIDPathBits) ^ unsafe.Offsetof(abi.IbUverbsWc{}.DlidPathBits)) -
	(unsafe.Sizeof(verbs.WC{}) ^ unsafe.Sizeof(abi.IbUverbsWc{}))

// copyCQE copies an entry out of shared memory, each byte once.
func copyCQE(e *abi.IbUverbsWc, wc *verbs.WC) { *(*abi.IbUverbsWc)(unsafe.Pointer(wc)) = *e }

// behind is where an entry's fixed part ends: struct rxe_dma_info is its last field.
func behind(dma *abi.RxeDmaInfo) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(dma), unsafe.Sizeof(*dma))
}

// sgeBehind views SGE i of an entry, whose queue has room for it.
func sgeBehind(dma *abi.RxeDmaInfo, i int) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(behind(dma), uintptr(i)*unsafe.Sizeof(abi.RxeSge{})))
}

// bytesBehind views the n bytes of inline data of an entry, no more than its queue
// has room for.
func bytesBehind(dma *abi.RxeDmaInfo, n int) []byte { return unsafe.Slice((*byte)(behind(dma)), n) }

// arm views the union in struct rxe_send_wr as one of its arms, none of which is
// larger.
func arm[T any](wr *abi.RxeSendWr) *T { return (*T)(unsafe.Pointer(&wr.Wr)) }
