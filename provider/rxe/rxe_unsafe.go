package rxe

import (
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// This compiles only if an entry has the layout of a WC.
const _ = -(unsafe.Offsetof(verbs.WC{}.DLIDPathBits) ^ unsafe.Offsetof(abi.IbUverbsWc{}.DlidPathBits)) -
	(unsafe.Sizeof(verbs.WC{}) ^ unsafe.Sizeof(abi.IbUverbsWc{}))

// copyCQE copies an entry out of shared memory and reads each byte once.
func copyCQE(e *abi.IbUverbsWc, wc *verbs.WC) { *(*abi.IbUverbsWc)(unsafe.Pointer(wc)) = *e }

// behind returns the end of an entry's fixed part: struct rxe_dma_info is its last field.
func behind(dma *abi.RxeDmaInfo) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(dma), unsafe.Sizeof(*dma))
}

// sgeBehind returns SGE i of an entry. The caller has checked that the entry has room.
func sgeBehind(dma *abi.RxeDmaInfo, i int) *abi.RxeSge {
	return (*abi.RxeSge)(unsafe.Add(behind(dma), uintptr(i)*unsafe.Sizeof(abi.RxeSge{})))
}

// bytesBehind returns the n bytes of an entry's inline data. The caller has checked that
// the entry has room.
func bytesBehind(dma *abi.RxeDmaInfo, n int) []byte { return unsafe.Slice((*byte)(behind(dma)), n) }

// arm returns the union in struct rxe_send_wr as one of its members, none of which is
// larger.
func arm[T any](wr *abi.RxeSendWr) *T { return (*T)(unsafe.Pointer(&wr.Wr)) }
