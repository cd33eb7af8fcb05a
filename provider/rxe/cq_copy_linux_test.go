//go:build !race

package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/mmaptest"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// A kernel refills an entry as soon as it is given back, so the copy has to be made before.
// Here giving it back faults, because the memory is read-only, and the copy has to be
// complete by then.
func TestCopiedBeforeRelease(t *testing.T) {
	memory := make([]byte, queueData+2*128)
	memory[log2ElemSize], memory[indexMask], memory[producerIndex] = 7, 3, 2
	for i := range 2 {
		copy(memory[queueData+i*128:], abi.Bytes(&abi.IbUverbsWc{WrId: uint64(i + 1), Opcode: abi.IB_WC_RECV, ByteLen: 8}))
	}
	region := mmaptest.ReadOnly(t, memory)
	layout := providertest.Must[queue](t)(readHeader(region)).layout
	q := &cq{ring: *providertest.Must[*mmap.IndexedConsumer[abi.IbUverbsWc]](t)(mmap.NewIndexedConsumer[abi.IbUverbsWc](region, layout))}
	wcs := make([]verbs.WC, 2)
	mmaptest.MustFault(t, func() { _, _, _ = q.Poll(wcs) })
	for i, wc := range wcs {
		if wc.WRID != uint64(i+1) || wc.ByteLen != 8 {
			t.Errorf("given back before it was copied: %+v", wc)
		}
	}
}
